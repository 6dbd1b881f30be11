"""Refusals, in the form that OpenAI's clients read."""

from starlette.responses import JSONResponse


class Refused(Exception):
    """A request that is not served; `status` is the HTTP status, a 4xx or 5xx."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code


def error_body(refused: Refused) -> dict[str, object]:
    return {
        "error": {
            "message": refused.message,
            "type": _type_of(refused.status),
            "param": refused.param,
            "code": refused.code,
        }
    }


def error_response(refused: Refused) -> JSONResponse:
    headers = {"retry-after": "1"} if refused.status in (429, 503) else None
    return JSONResponse(error_body(refused), refused.status, headers=headers)


def _type_of(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"
