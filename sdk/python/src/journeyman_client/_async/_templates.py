"""The operations of templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import Unpack

from .. import _operations as op
from .. import models
from .._core import page_of
from ._paging import AsyncPager

if TYPE_CHECKING:
    from .. import params
    from ._client import AsyncJourneyman

_TEMPLATES = page_of(models.TemplateList, lambda page: page.templates)


class AsyncTemplates:
    """The prompts of projects that people choose when they create a job: ``client.templates``."""

    def __init__(self, client: AsyncJourneyman) -> None:
        self._transport = client._transport

    async def create(
        self,
        project: str,
        *,
        idempotency_key: str | None = None,
        **template: Unpack[params.CreateTemplate],
    ) -> models.Template:
        """Creates a template.

        Args:
            project: The ID of the project.
            idempotency_key: A key of 1 to 255 ASCII characters. A repetition within 24 hours
                returns the same template.
            template: The fields of the template: ``name``, ``prompt``, and optionally
                ``description``, ``agent``, ``model`` and ``labels``.

        Raises:
            ConflictError: A template with this name exists (``template_exists``), or the project
                has 50 templates (``too_many_templates``).
            ValueError: A field is unknown, or has a wrong type.
        """
        return await self._transport.get(
            models.Template,
            op.CREATE_TEMPLATE,
            project,
            body=models.CreateTemplate.model_validate(template),
            idempotency_key=idempotency_key,
        )

    async def get(self, project: str, template: str) -> models.Template:
        """Returns a template."""
        return await self._transport.get(models.Template, op.GET_TEMPLATE, project, template)

    def list(
        self, project: str, *, page_size: int | None = None, cursor: str | None = None
    ) -> AsyncPager[models.Template]:
        """Lists the templates of a project, by name."""
        query = {"limit": page_size, "cursor": cursor}
        return AsyncPager(self._transport, _TEMPLATES, op.LIST_TEMPLATES, project, query=query)

    async def update(
        self,
        project: str,
        template: str,
        *,
        if_match: str | models.Template | None = None,
        **changes: Unpack[params.ChangeTemplate],
    ) -> models.Template:
        """Changes a template. Jobs that were created from it stay as they are.

        Args:
            project: The ID of the project.
            template: The ID of the template.
            if_match: A template that was read earlier, or its ETag.
            changes: The fields to change. ``None`` for ``agent`` and ``model`` means those of the
                project.

        Raises:
            ConflictError: A template with this name exists (``template_exists``).
            PreconditionFailedError: The template has changed.
        """
        return await self._transport.get(
            models.Template,
            op.CHANGE_TEMPLATE,
            project,
            template,
            body=models.ChangeTemplate.model_validate(changes),
            if_match=if_match,
        )

    async def delete(
        self, project: str, template: str, *, if_match: str | models.Template | None = None
    ) -> None:
        """Deletes a template. Jobs that were created from it stay as they are.

        Raises:
            PreconditionFailedError: The template has changed.
        """
        await self._transport.call(op.DELETE_TEMPLATE, project, template, if_match=if_match)
