"""Several jobs on one cluster: placed, each run alone and all at one time, gathered into one Result."""
