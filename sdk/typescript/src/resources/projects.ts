import type { CreateProject, FindingList, Project, ProjectChanges } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on projects. */
export class Projects {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the projects that the key may see, ordered by ID. */
  list(query: ListQuery = {}, options: RequestOptions = {}): Pages<Project> {
    return this.#transport.list("listProjects", { query }, options, ({ projects }) => projects);
  }

  /**
   * Creates a project.
   *
   * @throws {ConflictError} A project with this ID already exists (`project_exists`).
   */
  create(project: CreateProject, options?: IdempotentOptions): ApiPromise<Project> {
    return this.#transport.call("createProject", { body: project }, options);
  }

  /** Returns a project. */
  get(id: string, options?: RequestOptions): ApiPromise<Project> {
    return this.#transport.call("getProject", { path: { projectId: id } }, options);
  }

  /**
   * Changes the given fields of a project. To change only the version that was read:
   *
   * ```ts
   * const { data, response } = await client.projects.get("shop").withResponse();
   * await client.projects.update("shop", { model: "openai/gpt-5" }, { ifMatch: response.etag });
   * ```
   *
   * @throws {PreconditionFailedError} The project has another version than `ifMatch` requires.
   */
  update(id: string, changes: ProjectChanges, options?: ChangeOptions): ApiPromise<Project> {
    return this.#transport.call("changeProject", { path: { projectId: id }, body: changes }, options);
  }

  /**
   * Deletes a project.
   *
   * @throws {ConflictError} The project has active jobs (`project_busy`).
   * @throws {PreconditionFailedError} The project has another version than `ifMatch` requires.
   */
  delete(id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("deleteProject", { path: { projectId: id } }, options);
  }

  /** Tests the repository and the settings of a project with the given changes, without storing them. */
  test(id: string, changes: ProjectChanges = {}, options?: RequestOptions): ApiPromise<FindingList> {
    return this.#transport.call("testProject", { path: { projectId: id }, body: changes }, options);
  }

  /** Tests the repository and the settings of a project that does not exist yet. */
  testNew(project: CreateProject, options?: RequestOptions): ApiPromise<FindingList> {
    return this.#transport.call("testNewProject", { body: project }, options);
  }
}
