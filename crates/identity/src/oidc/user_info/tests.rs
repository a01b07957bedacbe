use http::header::CONTENT_TYPE;

use super::*;

fn read(status: u16, media_type: Option<&str>, body: &'static str) -> Result<PersonClaims, OidcError> {
    let mut response = Response::builder().status(status);
    if let Some(media_type) = media_type {
        response = response.header(CONTENT_TYPE, media_type);
    }
    claims(&response.body(Bytes::from_static(body.as_bytes())).unwrap(), "ada")
}

#[test]
fn user_info_is_json_about_the_same_person() {
    let good = r#"{"sub": "ada", "email": "ada@example.com"}"#;
    for media_type in [None, Some("application/json"), Some("application/json;charset=UTF-8")] {
        assert!(read(200, media_type, good).is_ok(), "{media_type:?}");
    }
    for (status, media_type, body, part) in [
        (200, JSON, r#"{"sub": "eve", "email": "ada@example.com"}"#, "not about this person"),
        (200, JSON, r#"{"sub": "Ada"}"#, "not about this person"),
        (200, JSON, r#"{"email": "ada@example.com"}"#, "not valid"),
        (200, JSON, "", "not valid"),
        (200, "application/jwt", good, "application/jwt"),
        (200, "text/plain", good, "text/plain"),
        (401, JSON, good, "401"),
        (204, JSON, good, "204"),
    ] {
        let error = read(status, Some(media_type), body).err().unwrap();
        assert!(error.code() == "bad_answer" && error.detail().unwrap().contains(part), "{error:?}");
    }
}

#[test]
fn an_access_token_that_is_no_header_value_is_not_sent() {
    let endpoint: Url = "https://id.example.com/userinfo".parse().unwrap();
    let sent = request(&endpoint, "acc3ss").unwrap();
    assert_eq!(sent.headers()[AUTHORIZATION], "Bearer acc3ss");
    for token in ["two words", "a\r\nhost: b", "é"] {
        assert_eq!(request(&endpoint, token).unwrap_err().code(), "bad_answer", "{token:?}");
    }
}
