"""Arguments and launch scripts of Megatron-LM as scenarios."""
