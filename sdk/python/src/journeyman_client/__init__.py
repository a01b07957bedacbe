"""The Python client of Journeyman, a service that runs AI coding agents on git repositories.

::

    from journeyman_client import Journeyman

    with Journeyman() as client:
        job = client.jobs.create("shop", prompt="Fix the login").wait()
        print(job.ask("Add a test").answer)
        print(job.status, job.pr_link)

``AsyncJourneyman`` has the same methods for asyncio.
"""

from . import errors, models, params, webhooks
from ._async._client import AsyncJourneyman
from ._async._job import AsyncJob, AsyncSentMessage
from ._async._paging import AsyncPager
from ._async._streams import AsyncEventStream
from ._core import Page
from ._events import Event, UnknownEvent
from ._model import Model
from ._sync._client import Journeyman
from ._sync._job import Job, SentMessage
from ._sync._paging import Pager
from ._sync._streams import EventStream
from ._version import VERSION as __version__
from .errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    BranchTakenError,
    ConflictError,
    ConnectionFailedError,
    CursorExpiredError,
    IdempotencyKeyReusedError,
    InvalidResponseError,
    JobArchivedError,
    JobBusyError,
    JobNotFoundError,
    JourneymanError,
    MessageAlreadyDeliveredError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    QueueFullError,
    RateLimitedError,
    RequestTimeoutError,
    ServerError,
    WaitTimeoutError,
    WebhookVerificationError,
)

__all__ = [
    "APIError",
    "AsyncEventStream",
    "AsyncJob",
    "AsyncJourneyman",
    "AsyncPager",
    "AsyncSentMessage",
    "AuthenticationError",
    "BadRequestError",
    "BranchTakenError",
    "ConflictError",
    "ConnectionFailedError",
    "CursorExpiredError",
    "Event",
    "EventStream",
    "IdempotencyKeyReusedError",
    "InvalidResponseError",
    "Job",
    "JobArchivedError",
    "JobBusyError",
    "JobNotFoundError",
    "Journeyman",
    "JourneymanError",
    "MessageAlreadyDeliveredError",
    "Model",
    "NotFoundError",
    "OutcomeUnknownError",
    "Page",
    "Pager",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "QueueFullError",
    "RateLimitedError",
    "RequestTimeoutError",
    "SentMessage",
    "ServerError",
    "UnknownEvent",
    "WaitTimeoutError",
    "WebhookVerificationError",
    "__version__",
    "errors",
    "models",
    "params",
    "webhooks",
]
