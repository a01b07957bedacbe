use std::collections::HashMap;

use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use journeyman_core::user::Role;
use journeyman_testkit::World;
use serde_json::json;
use url::form_urlencoded;

use super::*;

/// Returns the header `Authorization` and the form of a request.
fn sent(secret: Option<&str>, methods: &[&str]) -> (Option<String>, HashMap<String, String>) {
    let settings = OidcSettings {
        issuer: "https://id.example.com".parse().unwrap(),
        client_id: "a client".to_owned(),
        client_secret: secret.map(|secret| SecretValue(secret.to_owned())),
        scopes: vec![],
        allowed_domains: vec![],
        default_role: Role::Viewer,
        button_label: "Sign in".to_owned(),
    };
    let provider: Metadata = serde_json::from_value(json!({
        "issuer": "https://id.example.com",
        "authorization_endpoint": "https://id.example.com/authorize",
        "token_endpoint": "https://id.example.com/token",
        "jwks_uri": "https://id.example.com/keys",
        "token_endpoint_auth_methods_supported": methods,
    }))
    .unwrap();
    let pending = Pending::new(&*World::new(), Timestamp::from_micros(0));
    let redirect = "https://jobs.example.com/?a=b".parse().unwrap();
    let request = request(&settings, &provider, "c0de", &pending, &redirect).unwrap();
    assert_eq!(request.uri(), "https://id.example.com/token");
    let form: HashMap<String, String> = form_urlencoded::parse(request.body()).into_owned().collect();
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "c0de"),
        ("code_verifier", pending.verifier()),
        ("redirect_uri", "https://jobs.example.com/?a=b"),
    ] {
        assert_eq!(form.get(name).map(String::as_str), Some(value), "{name}");
    }
    (request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned()), form)
}

#[test]
fn the_client_secret_is_sent_in_the_form_that_the_provider_accepts() {
    let header = format!("Basic {}", STANDARD.encode("a+client:s%2Bcret%3A%26"));
    for methods in [&[][..], &["client_secret_basic"], &["client_secret_post", "client_secret_basic"]] {
        let (shown, form) = sent(Some("s+cret:&"), methods);
        assert_eq!(shown.as_ref(), Some(&header), "{methods:?}");
        assert!(!form.contains_key("client_id") && !form.contains_key("client_secret"), "{methods:?}");
    }
    let (shown, form) = sent(Some("s+cret:&"), &["client_secret_post"]);
    assert_eq!((shown, form["client_id"].as_str(), form["client_secret"].as_str()), (None, "a client", "s+cret:&"));
    for methods in [&["none"], &["client_secret_basic"]] {
        let (shown, form) = sent(None, methods);
        assert_eq!((shown, form["client_id"].as_str()), (None, "a client"), "{methods:?}");
        assert!(!form.contains_key("client_secret"), "{methods:?}");
    }
}

fn response(status: u16, media_type: Option<&str>, body: &str) -> Response<Bytes> {
    let mut response = Response::builder().status(status);
    if let Some(media_type) = media_type {
        response = response.header(CONTENT_TYPE, media_type);
    }
    response.body(Bytes::from(body.to_owned())).unwrap()
}

const GOOD: &str = r#"{"access_token": "s3cret", "token_type": "bearer", "id_token": "a.b.c", "expires_in": 300}"#;

#[test]
fn a_token_response_is_json_with_a_bearer_token() {
    for media_type in [None, Some("application/json"), Some("Application/JSON; charset=utf-8")] {
        let tokens = tokens(&response(200, media_type, GOOD)).ok().unwrap();
        assert_eq!((tokens.access_token.as_str(), tokens.id_token.as_deref()), ("s3cret", Some("a.b.c")));
    }
    let cases = [
        (200, Some("text/html"), GOOD, "text/html"),
        (200, Some("application/jsonp"), GOOD, "application/jsonp"),
        (200, Some(JSON), "", "no content"),
        (200, Some(JSON), r#"{"access_token": "s3cret"}"#, "not valid (at "),
        (200, Some(JSON), r#"{"access_token": "s3cret", "token_type": ["s3cret"]}"#, "not valid (at token_type"),
        (200, Some(JSON), r#"{"access_token": "s3cret", "token_type": "mac"}"#, "not Bearer"),
        (200, Some(JSON), r#"{"access_token": "s3cret", "token_type": "Bearer"} s3cret"#, "not valid (at the end"),
        (201, Some(JSON), GOOD, "not valid (at "),
        (302, None, "", "302"),
        (400, Some("text/html"), "<p>s3cret</p>", "not valid (at "),
        (400, Some(JSON), r#"{"error": "invalid_grant", "error_description": "used"}"#, "invalid_grant: used"),
    ];
    for (status, media_type, body, part) in cases {
        let error = tokens(&response(status, media_type, body)).err().unwrap();
        let detail = error.detail().unwrap();
        assert!(error.code() == "bad_answer" && detail.contains(part) && !detail.contains("s3cret"), "{detail}");
    }
}

#[test]
fn a_refused_client_is_a_configuration_error() {
    for (status, code) in [(401, "invalid_client"), (400, "invalid_client"), (400, "unauthorized_client")] {
        let error = tokens(&response(status, None, &json!({"error": code}).to_string())).err().unwrap();
        assert!(error.code() == "not_configured" && error.detail().unwrap().contains(code), "{error:?}");
    }
}
