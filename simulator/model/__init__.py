"""The transformer as blocks: operations on rows, from which its tensors, its backward pass, what it keeps and its cache
follow. Training evaluates them at the tokens of a microbatch, serving compiles them over rows and contexts."""
