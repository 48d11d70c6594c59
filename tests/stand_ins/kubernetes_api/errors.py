"""What the API answers when it refuses."""

from __future__ import annotations

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    415: "UnsupportedMediaType",
    422: "Invalid",
}


class RefusedError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def status(self) -> dict[str, object]:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": REASONS[self.code],
            "code": self.code,
        }


def not_found(plural: str, name: str) -> RefusedError:
    return RefusedError(404, f'{plural} "{name}" not found')
