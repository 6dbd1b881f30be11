"""A released SGLang's unified cache, on a CPU, driven by that release's own scheduler."""
