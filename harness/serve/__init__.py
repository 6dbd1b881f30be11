"""An OpenAI-compatible server over the reference cache and engine, on the wall clock."""
