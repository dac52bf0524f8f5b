"""What a file holds, before its values are looked at: which spec its root is, what lies below a key, what keys mean."""
