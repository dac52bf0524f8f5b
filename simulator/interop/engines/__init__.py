"""Command lines of serving engines: vLLM, SGLang and TensorRT-LLM."""
