//! The fixture of the tests.

use std::sync::Arc;

use journeyman_core::secret::SecretValue;
use journeyman_core::time::Clock as _;
use journeyman_core::user::Role;
use journeyman_identity::oidc::{Begun, Oidc, OidcError, OidcSettings, ProviderUser, Returned};
use journeyman_testkit::oidc::{CLIENT_ID, CLIENT_SECRET, Fault, Provider};
use journeyman_testkit::{PATIENCE, World, until_async};
use url::Url;

/// A client and the test provider through which people sign in.
pub(crate) struct Fixture {
    pub(crate) world: Arc<World>,
    pub(crate) provider: Provider,
    pub(crate) oidc: Oidc,
    pub(crate) redirect: Url,
}

impl Fixture {
    /// Creates a fixture that admits people of example.com.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Creates a fixture with changed settings.
    pub(crate) async fn with(change: impl FnOnce(&mut OidcSettings)) -> Self {
        let world = World::new();
        let provider = Provider::start(world.clone()).await;
        let mut settings = OidcSettings {
            issuer: provider.issuer.clone(),
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(SecretValue(CLIENT_SECRET.to_owned())),
            scopes: vec![],
            allowed_domains: vec!["example.com".to_owned()],
            default_role: Role::Viewer,
            button_label: "Sign in with Example".to_owned(),
        };
        change(&mut settings);
        let oidc = Oidc::new(settings, world.clone()).unwrap().with_patience(PATIENCE);
        Self { world, provider, oidc, redirect: "https://jobs.example.com/sign-in/oidc?next=%2F".parse().unwrap() }
    }

    pub(crate) async fn begin(&self) -> Result<Begun, OidcError> {
        self.oidc.begin(&self.redirect, self.world.now()).await
    }

    pub(crate) async fn finish(&self, begun: &Begun, returned: Returned) -> Result<ProviderUser, OidcError> {
        self.oidc.finish(&begun.pending, returned, &self.redirect, self.world.now()).await
    }

    /// Runs a complete sign-in, as a browser does.
    pub(crate) async fn sign_in(&self) -> Result<ProviderUser, OidcError> {
        let begun = self.begin().await?;
        let returned = visit(&begun.url).await;
        self.finish(&begun, returned).await
    }

    /// Returns the number of requests that the provider got for a path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.provider.asked().iter().filter(|asked| *asked == path).count()
    }
}

/// Waits for a future that sends requests to the provider. If the provider is silent, the clock skips the time limit of the
/// request that it has received.
pub(crate) async fn skip_silence<T>(provider: &Provider, fault: Fault, requests: impl Future<Output = T>) -> T {
    if fault != Fault::Silence {
        return requests.await;
    }
    let before = provider.asked().len();
    let skip = async {
        until_async("the provider is asked", async || (provider.asked().len() > before).then_some(())).await;
        tokio::time::pause();
        tokio::time::advance(PATIENCE).await;
        tokio::time::resume();
        std::future::pending().await
    };
    tokio::select! {
        output = requests => output,
        output = skip => output,
    }
}

/// Opens the provider's page as a browser does, and returns the parameters of its redirect.
pub(crate) async fn visit(url: &Url) -> Returned {
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let answer = browser.get(url.clone()).send().await.unwrap();
    assert_eq!(answer.status(), 302, "the provider did not send the browser back");
    let back: Url = answer.headers()["location"].to_str().unwrap().parse().unwrap();
    assert_eq!(back.host_str(), Some("jobs.example.com"));
    let get = |name: &str| back.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    Returned {
        code: get("code"),
        state: get("state"),
        iss: get("iss"),
        error: get("error"),
        error_description: get("error_description"),
    }
}
