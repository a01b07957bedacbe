"""The exceptions of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

    from .models import ErrorCode

__all__ = [
    "APIError",
    "AuthenticationError",
    "BadRequestError",
    "BranchTakenError",
    "ConflictError",
    "ConnectionFailedError",
    "CursorExpiredError",
    "IdempotencyKeyReusedError",
    "InvalidResponseError",
    "JobArchivedError",
    "JobBusyError",
    "JobNotFoundError",
    "JourneymanError",
    "MessageAlreadyDeliveredError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "QueueFullError",
    "RateLimitedError",
    "RequestTimeoutError",
    "ServerError",
    "WaitTimeoutError",
    "WebhookVerificationError",
]


class JourneymanError(Exception):
    """The base class of all exceptions of this package."""


class ConnectionFailedError(JourneymanError):
    """The server could not be reached, or the connection was lost.

    The cause is an exception of httpx. If the request was not a ``GET``, the server may have
    carried it out.
    """


class RequestTimeoutError(ConnectionFailedError, TimeoutError):
    """The server did not answer in time."""


class InvalidResponseError(JourneymanError):
    """The answer is not one of this interface: the URL may be that of another service."""


class WaitTimeoutError(JourneymanError, TimeoutError):
    """A job was still active, or a message had not ended, when the time to wait was over."""


class WebhookVerificationError(JourneymanError):
    """A request is not a webhook that was signed with the secret, or it is too old."""


class APIError(JourneymanError):
    """The server refused a request.

    The class of an error follows from its code, and otherwise from its status.

    Attributes:
        status: The status of the response.
        code: The stable code of the error. A newer server may send codes that :data:`ErrorCode`
            does not list. ``None`` if the answer is not from Journeyman but from a proxy.
        message: The reason, in a sentence for people.
        request_id: The ID of the request in the log of the server.
        retry_after: The number of seconds after which the server suggests another attempt.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: ErrorCode | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        code = self.code or "no code"
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{self.message} ({self.status} {code}{request})"


class BadRequestError(APIError):
    """The request is not valid (400, 405, 408, 413, 414, 415, or 431)."""


class AuthenticationError(APIError):
    """The key is missing, malformed, unknown, expired, or revoked (401)."""


class PermissionDeniedError(APIError):
    """The key does not permit the request, or not from this address (403)."""


class NotFoundError(APIError):
    """The resource does not exist, or the key may not see its project (404)."""


class JobNotFoundError(NotFoundError):
    """The job does not exist, or the key may not see its project (``job_not_found``)."""


class ConflictError(APIError):
    """The state of the resource forbids the request (409)."""


class JobArchivedError(ConflictError):
    """The job is archived, so it takes no messages (``job_archived``)."""


class JobBusyError(ConflictError):
    """The job is active (``job_busy``)."""


class BranchTakenError(ConflictError):
    """Another job of the project works on this branch (``branch_taken``)."""


class MessageAlreadyDeliveredError(ConflictError):
    """The message is not queued anymore (``message_already_delivered``)."""


class CursorExpiredError(APIError):
    """The events after the cursor are no longer stored (410 ``cursor_expired``).

    Read the list of jobs, and read the events from the beginning.
    """


class PreconditionFailedError(APIError):
    """The object has changed since it was read (412 ``precondition_failed``)."""


class IdempotencyKeyReusedError(APIError):
    """The idempotency key was used with a different request (422 ``idempotency_key_reused``)."""


class RateLimitedError(APIError):
    """The hourly limit is used up (429 ``rate_limited``). ``retry_after`` says for how long."""


class QueueFullError(APIError):
    """The queue of the job is full (429 ``queue_full``)."""


class ServerError(APIError):
    """The server, or a proxy in front of it, failed (500 to 599)."""


class OutcomeUnknownError(ServerError):
    """The server does not know whether it stored the request (504 ``outcome_unknown``)."""


_BY_CODE: dict[str, type[APIError]] = {
    "branch_taken": BranchTakenError,
    "cursor_expired": CursorExpiredError,
    "idempotency_key_reused": IdempotencyKeyReusedError,
    "job_archived": JobArchivedError,
    "job_busy": JobBusyError,
    "job_not_found": JobNotFoundError,
    "message_already_delivered": MessageAlreadyDeliveredError,
    "outcome_unknown": OutcomeUnknownError,
    "precondition_failed": PreconditionFailedError,
    "queue_full": QueueFullError,
    "rate_limited": RateLimitedError,
}

_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    405: BadRequestError,
    408: BadRequestError,
    409: ConflictError,
    413: BadRequestError,
    414: BadRequestError,
    415: BadRequestError,
    431: BadRequestError,
}


def from_response(response: httpx.Response) -> APIError:
    """Returns the exception for a response whose body has been read."""
    status = response.status_code
    try:
        body = response.json()
    except ValueError:
        body = None
    body = body if isinstance(body, dict) else {}
    code = body.get("code")
    message = body.get("error")
    if not isinstance(message, str):
        message = (
            f"the response has status {status} and no error text; "
            "check that the URL is that of a Journeyman server"
        )
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    if kind is None:
        kind = _BY_STATUS.get(status) or (ServerError if status >= 500 else APIError)
    return kind(
        message,
        status=status,
        code=code,
        request_id=body.get("requestId") or response.headers.get("x-request-id"),
        retry_after=_seconds(response.headers.get("retry-after")),
    )


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        # A proxy may send a date; then the usual delays apply.
        return None
