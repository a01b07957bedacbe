//! Things that tests begin with.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use journeyman_core::project::SecretValue;
use journeyman_core::time::{Clock, IdGen, Timestamp};
use journeyman_core::user::Role;
use journeyman_identity::oidc::{Begun, Oidc, OidcError, OidcSettings, Person, Returned};
use journeyman_testkit::oidc::{CLIENT_ID, CLIENT_SECRET, Provider};
use url::Url;
use uuid::Uuid;

/// A clock set by hand, and random bytes that count.
#[derive(Default)]
pub(crate) struct World {
    micros: AtomicI64,
    count: AtomicU64,
}

impl World {
    pub(crate) fn pass(&self, time: Duration) {
        self.micros.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + self.micros.load(Ordering::SeqCst))
    }
}

impl IdGen for World {
    fn uuid(&self, _: Timestamp) -> Uuid {
        Uuid::from_u128(u128::from(self.count.fetch_add(1, Ordering::SeqCst)))
    }

    fn fill(&self, bytes: &mut [u8]) {
        let seed = self.count.fetch_add(1, Ordering::SeqCst);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
    }
}

/// A server that people sign in to, and the provider by which they do.
pub(crate) struct Place {
    pub(crate) world: Arc<World>,
    pub(crate) provider: Provider,
    pub(crate) oidc: Oidc,
    pub(crate) redirect: Url,
}

impl Place {
    /// One that lets people of example.com in.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// One with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut OidcSettings)) -> Self {
        let world = Arc::new(World::default());
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
        let oidc = Oidc::new(settings, world.clone()).unwrap().with_patience(Duration::from_secs(2));
        Self { world, provider, oidc, redirect: "https://jobs.example.com/sign-in/oidc?next=%2F".parse().unwrap() }
    }

    pub(crate) async fn begin(&self) -> Result<Begun, OidcError> {
        self.oidc.begin(&self.redirect, self.world.now()).await
    }

    pub(crate) async fn finish(&self, begun: &Begun, returned: Returned) -> Result<Person, OidcError> {
        self.oidc.finish(&begun.pending, returned, &self.redirect, self.world.now()).await
    }

    /// All of it, as a browser does it.
    pub(crate) async fn sign_in(&self) -> Result<Person, OidcError> {
        let begun = self.begin().await?;
        let returned = visit(&begun.url).await;
        self.finish(&begun, returned).await
    }

    /// How often the provider was asked for that path.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.provider.asked().iter().filter(|asked| *asked == path).count()
    }
}

/// Goes to the provider, which sends the browser back.
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
