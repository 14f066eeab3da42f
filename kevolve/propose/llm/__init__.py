"""The proposer that asks language models: any provider that litellm knows, any OpenAI-compatible server.

`proposer.py` is one request's way; `client.py` calls a model and is the only file that knows litellm, with its faults
(`failures.py`) and settings (`models.py`); `spending.py` keeps the budget and `breaker.py` gives models up that fail.
"""
