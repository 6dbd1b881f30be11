"""From the body of a request to what it asks for; a mistake is a `Refused` that names the field.

What says how tokens are drawn (temperature, top_p, seed, ...) is accepted and ignored; what
would change the answer and is not done (n, stop, tools, logprobs, ...) is refused.
"""

import json
from dataclasses import dataclass
from typing import Any

from harness.serve.errors import Refused
from harness.serve.tokenizer import tokens_of

UNSUPPORTED: dict[str, tuple[object, ...]] = {  # field: the values that ask for nothing
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "prompt_logprobs": (None,),
    "suffix": (None, ""),
    "stop": (None, "", []),
    "tools": (None, []),
    "functions": (None, []),
    "response_format": (None, {"type": "text"}),
    "logit_bias": (None, {}),
    "audio": (None,),
}
MAX_SALT = 256
MAX_PRIORITY = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that can be served, as far as its body tells."""

    prompt: list[int]
    max_tokens: int
    chat: bool
    stream: bool
    include_usage: bool
    token_ids: bool  # the answer's tokens as numbers too
    namespace: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a request is checked against."""

    name: str
    vocab_size: int
    context_length: int
    default_max_tokens: int


def parse(body: bytes, model: Model, *, chat: bool) -> Asked:
    """Raises `Refused`, a 4xx."""
    fields = _fields(body)
    name = fields.get("model")
    if name is not None and name != model.name:
        raise Refused(
            404,
            f"the model {name!r:.100} does not exist: this server has {model.name!r}",
            param="model",
            code="model_not_found",
        )
    for field, harmless in UNSUPPORTED.items():
        if field in fields and fields[field] not in harmless:
            raise Refused(400, f"{field} is not supported by this server", param=field)
    _check_temperature(fields)
    prompt = _chat_prompt(fields, model) if chat else _prompt(fields, model)
    stream = _flag(fields, "stream")
    options = fields.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise Refused(400, "stream_options must be an object", param="stream_options")
    return Asked(
        prompt=prompt,
        max_tokens=_max_tokens(fields, model, len(prompt)),
        chat=chat,
        stream=stream,
        include_usage=stream and _flag(options or {}, "include_usage"),
        token_ids=_flag(fields, "return_token_ids"),
        namespace=_salt(fields),
        priority=_integer(fields, "priority", 0, -MAX_PRIORITY, MAX_PRIORITY),
    )


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {str(error)[:100]}") from None
    if not isinstance(fields, dict):
        raise Refused(400, "the body must be a JSON object")
    return fields


def _prompt(fields: dict[str, Any], model: Model) -> list[int]:
    """Text, token ids, or a list of one of either."""
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        prompt = tokens_of(prompt, model.vocab_size)
    elif not isinstance(prompt, list):
        raise Refused(400, "prompt must be a text or a list of token ids", param="prompt")
    elif prompt and isinstance(prompt[0], str | list):
        raise Refused(400, "one prompt a request: send a request for each", param="prompt")
    return _checked(prompt, model, "prompt")


def _chat_prompt(fields: dict[str, Any], model: Model) -> list[int]:
    """Messages in a plain template: a line with the role, the content, a line end."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "messages must be a list of one or more", param="messages")
    parts = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refused(400, f"messages[{number}] must have a role", param="messages")
        parts.append(f"<|{message['role']}|>\n{_content(message, number)}\n")
    text = "".join([*parts, "<|assistant|>\n"])
    return _checked(tokens_of(text, model.vocab_size), model, "messages")


def _content(message: dict[str, Any], number: int) -> str:
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else None for part in content]
        if all(isinstance(text, str) for text in texts):
            return "".join(str(text) for text in texts)
    if isinstance(content, str):
        return content
    raise Refused(400, f"messages[{number}].content must be text", param="messages")


def _checked(tokens: list[Any], model: Model, param: str) -> list[int]:
    if not tokens:
        raise Refused(400, f"{param} is empty", param=param)
    if len(tokens) >= model.context_length:
        raise Refused(
            400,
            f"{len(tokens)} prompt tokens do not fit the context of {model.context_length}",
            param=param,
            code="context_length_exceeded",
        )
    if any(type(token) is not int for token in tokens):
        raise Refused(400, f"{param} must be a text or a list of token ids", param=param)
    if min(tokens) < 0 or max(tokens) >= model.vocab_size:
        raise Refused(400, f"token ids must lie in 0 .. {model.vocab_size - 1}", param=param)
    return tokens


def _max_tokens(fields: dict[str, Any], model: Model, prompt_len: int) -> int:
    room = model.context_length - prompt_len
    for field in ("max_completion_tokens", "max_tokens"):
        if fields.get(field) is None:
            continue
        wanted = _integer(fields, field, 0, 1, None)
        if wanted > room:
            raise Refused(
                400,
                f"{prompt_len} prompt tokens and {field} {wanted} do not fit the context of"
                f" {model.context_length}",
                param=field,
                code="context_length_exceeded",
            )
        return wanted
    return min(model.default_max_tokens, room)


def _salt(fields: dict[str, Any]) -> str:
    salt = fields.get("cache_salt")
    if salt is None:
        return ""
    if not isinstance(salt, str) or len(salt.encode("utf-8", "surrogatepass")) > MAX_SALT:
        raise Refused(400, f"cache_salt must be a text of {MAX_SALT} bytes at most",
                      param="cache_salt")  # fmt: skip
    return salt.encode("utf-8", "backslashreplace").decode()


def _check_temperature(fields: dict[str, Any]) -> None:
    value = fields.get("temperature")
    if value is None:
        return
    if type(value) not in (int, float) or not 0 <= value <= 2:
        raise Refused(400, "temperature must lie between 0 and 2", param="temperature")


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise Refused(400, f"{name} must be true or false", param=name)


def _integer(fields: dict[str, Any], name: str, default: int, least: int, most: int | None) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if type(value) is not int or value < least or (most is not None and value > most):
        bound = f"{least} or more" if most is None else f"in {least} .. {most}"
        raise Refused(400, f"{name} must be an integer, {bound}", param=name)
    return value
