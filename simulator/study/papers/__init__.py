"""The figures of published systems beside ours: claims as data, the runs that they ask for, and what comes of them."""
