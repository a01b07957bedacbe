import type { ChangeTemplate, CreateTemplate, Template } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on templates: prompts of projects that people choose when they create a job. */
export class Templates {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the templates of a project, by name. */
  list(project: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<Template> {
    const parts = { path: { projectId: project }, query };
    return this.#transport.list("listTemplates", parts, options, ({ templates }) => templates);
  }

  /**
   * Creates a template.
   *
   * @throws {ConflictError} A template with this name already exists (`template_exists`), or the project has 50 of them
   * (`too_many_templates`).
   */
  create(project: string, template: CreateTemplate, options?: IdempotentOptions): ApiPromise<Template> {
    return this.#transport.call("createTemplate", { path: { projectId: project }, body: template }, options);
  }

  /** Returns a template. */
  get(project: string, id: string, options?: RequestOptions): ApiPromise<Template> {
    return this.#transport.call("getTemplate", { path: { projectId: project, id } }, options);
  }

  /**
   * Changes the given fields of a template. Jobs that were created from it stay as they are.
   *
   * @throws {ConflictError} A template with this name already exists (`template_exists`).
   * @throws {PreconditionFailedError} The template has another version than `ifMatch` requires.
   */
  update(project: string, id: string, changes: ChangeTemplate, options?: ChangeOptions): ApiPromise<Template> {
    return this.#transport.call("changeTemplate", { path: { projectId: project, id }, body: changes }, options);
  }

  /** Deletes a template. Jobs that were created from it stay as they are. Deleting it again changes nothing. */
  delete(project: string, id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("deleteTemplate", { path: { projectId: project, id } }, options);
  }
}
