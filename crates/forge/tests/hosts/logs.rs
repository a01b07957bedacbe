//! Logs of CI on other servers, which a code host chooses.

use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use journeyman_testkit::code_host::{Check, Product};

use super::fixtures::{Fixture, Outbound, PATH};

/// The products whose stand-ins redirect to another server for logs.
const PRODUCTS: [Product; 2] = [Product::Github, Product::Bitbucket];

/// Reads the log of a failed check.
async fn log(fixture: &Fixture, sha: &Sha) -> Result<Option<Vec<u8>>, ForgeError> {
    let forge = fixture.forge().await;
    let checks = forge.checks().unwrap();
    let found = checks.of_commit(sha).await.unwrap();
    checks.log(found[0].log.as_ref().unwrap(), 1000).await
}

#[tokio::test]
async fn a_code_host_cannot_lead_to_a_server_that_is_not_public() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let sha: Sha = fixture.branch("work").await;
        let check =
            Check { id: 1, sha: sha.to_string(), name: "test".to_owned(), passed: Some(false), log: "no".to_owned() };
        fixture.server.state().by_path(PATH).unwrap().checks = vec![check];
        // The code host itself is on this machine, which its administrator has entered.
        let fixture = fixture.reconnected_with(Outbound::default());
        let error = log(&fixture, &sha).await.unwrap_err();
        assert!(error.to_string().contains("code-host-networks") && !error.may_pass(), "{product:?}: {error}");
        let fixture = fixture.reconnected();
        assert_eq!(log(&fixture, &sha).await.unwrap().as_deref(), Some(b"no".as_slice()), "{product:?}: the control");
    }
}
