//! Runs the stand-in for GitHub for the benchmarks, until it is killed. It has the repository `acme/shop` and the user
//! `maria`, who may push. It prints its address and its secrets as a line of JSON.

use journeyman_testkit::code_host::{CodeHostServer, Product, State};
use serde_json::json;

#[expect(clippy::print_stdout, reason = "the purpose of this program")]
#[tokio::main]
async fn main() {
    let host = CodeHostServer::start(Product::Github).await;
    let clone = host.repository("acme/shop").await;
    let (id, user) = {
        let mut state = host.state();
        let user = state.add_user("maria", "write");
        (state.by_path("acme/shop").map(|repository| repository.id), user)
    };
    println!("{}", json!({ "url": host.url, "clone": clone, "repository": id, "user": user, "token": State::TOKEN }));
    std::future::pending::<()>().await;
}
