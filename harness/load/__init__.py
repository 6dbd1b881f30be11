"""A client that loads any OpenAI-compatible server, driven by Locust."""
