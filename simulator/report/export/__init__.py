"""A Result in the forms of other tools: traces, results of `vllm bench serve`."""
