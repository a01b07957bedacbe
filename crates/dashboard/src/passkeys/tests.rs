//! Tests of the verification, with an authenticator in software.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::engine::general_purpose::STANDARD;
use ciborium::Value;
use journeyman_core::decision::passkey::Presented;
use sha2::{Digest as _, Sha256};

use super::*;

/// The key pair of an authenticator.
enum Pair {
    Es256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rs256(Box<RsaKeyPair>),
}

/// An authenticator with one passkey, and the browser in front of it.
pub(crate) struct Device {
    pair: Pair,
    pub(crate) credential: Vec<u8>,
    pub(crate) counter: u32,
    /// The flags: 1 for present, 4 for verified.
    pub(crate) flags: u8,
    pub(crate) site: Site,
    /// The user handle of the passkey; it is stored at its creation.
    pub(crate) user_handle: Option<String>,
    /// The origin that the browser says if it is another one than that of the site.
    pub(crate) other_origin: Option<String>,
    is_framed: bool,
}

impl Device {
    fn of(pair: Pair) -> Self {
        let site = site("http://localhost:8080").unwrap();
        let (credential, counter, flags) = (b"credential".to_vec(), 0, 5);
        Self { pair, credential, counter, flags, site, user_handle: None, other_origin: None, is_framed: false }
    }

    /// Creates one with a P-256 key for the site of the tests.
    pub(crate) fn new() -> Self {
        Self::of(Pair::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap()))
    }

    fn cose_key(&self) -> Vec<u8> {
        let number = |number: i64| Value::from(number);
        let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
        let entries = match &self.pair {
            Pair::Es256(pair) => {
                let point = pair.public_key().as_ref();
                vec![
                    (1, number(2)),
                    (3, number(-7)),
                    (-1, number(1)),
                    (-2, bytes(&point[1..33])),
                    (-3, bytes(&point[33..])),
                ]
            }
            Pair::Ed25519(pair) => {
                let point = bytes(pair.public_key().as_ref());
                vec![(1, number(1)), (3, number(-8)), (-1, number(6)), (-2, point)]
            }
            Pair::Rs256(pair) => {
                let key = pair.public_key();
                let (modulus, exponent) = (key.modulus(), key.exponent());
                let (modulus, exponent) = (
                    bytes(modulus.big_endian_without_leading_zero()),
                    bytes(exponent.big_endian_without_leading_zero()),
                );
                vec![(1, number(3)), (3, number(-257)), (-1, modulus), (-2, exponent)]
            }
        };
        cbor(&Value::Map(entries.into_iter().map(|(label, value)| (Value::from(label), value)).collect()))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.pair {
            Pair::Es256(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
        }
    }

    fn client_data(&self, kind: &str, challenge: &str) -> Vec<u8> {
        let origin = self.other_origin.as_ref().unwrap_or(&self.site.origin);
        json!({"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": self.is_framed})
            .to_string()
            .into()
    }

    fn authenticator_data(&self, flags: u8) -> Vec<u8> {
        [&Sha256::digest(&self.site.id)[..], &[self.flags | flags], &self.counter.to_be_bytes()].concat()
    }

    /// Returns the answer to the options of a page that adds a passkey.
    pub(crate) fn create(&mut self, options: &str) -> String {
        let options: serde_json::Value = serde_json::from_str(options).unwrap();
        self.user_handle = options["user"]["id"].as_str().map(str::to_owned);
        self.created(options["challenge"].as_str().unwrap(), &self.cose_key())
    }

    fn created(&self, challenge: &str, key: &[u8]) -> String {
        let length = u16::try_from(self.credential.len()).unwrap().to_be_bytes();
        // Flags: a credential, and extensions after it.
        let data = self.authenticator_data(0xc0);
        let data = [&data[..], &[0; 16], &length, &self.credential, key, &cbor(&Value::Map(vec![]))].concat();
        let attestation = Value::Map(vec![
            (Value::from("fmt"), Value::from("none")),
            (Value::from("attStmt"), Value::Map(vec![])),
            (Value::from("authData"), Value::Bytes(data)),
        ]);
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let client_data = encode(&self.client_data("webauthn.create", challenge));
        let response = json!({"clientDataJSON": client_data, "attestationObject": encode(&cbor(&attestation))});
        json!({"id": encode(&self.credential), "type": "public-key", "response": response}).to_string()
    }

    /// Returns the answer to the options of a page that asks for a passkey.
    pub(crate) fn get(&self, options: &str) -> String {
        let options: serde_json::Value = serde_json::from_str(options).unwrap();
        self.got(options["challenge"].as_str().unwrap(), "webauthn.get")
    }

    fn got(&self, challenge: &str, kind: &str) -> String {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (client_data, data) = (self.client_data(kind, challenge), self.authenticator_data(0));
        let signature = self.sign(&[&data[..], &Sha256::digest(&client_data)[..]].concat());
        let response = json!({
            "clientDataJSON": encode(&client_data),
            "authenticatorData": encode(&data),
            "signature": encode(&signature),
            "userHandle": self.user_handle,
        });
        json!({"id": encode(&self.credential), "type": "public-key", "response": response}).to_string()
    }
}

fn cbor(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

fn expected() -> Expected {
    let (challenge, until) = ("Y2hhbGxlbmdl".to_owned(), Timestamp::default());
    Expected { site: site("http://localhost:8080").unwrap(), challenge, until }
}

fn register(device: &Device) -> Result<Registered, PasskeyRefusal> {
    verify::registration(&expected(), &device.created(&expected().challenge, &device.cose_key()))
}

/// Returns the passkey of a device.
fn passkey(device: &Device) -> Passkey {
    let Registered { credential, key, counter } = register(device).unwrap();
    Passkey { credential, key, counter, name: String::new(), created_at: Timestamp::default(), used_at: None }
}

fn present(device: &Device, passkeys: &[Passkey]) -> Presented {
    verify::assertion(&expected(), "user", passkeys, &device.got(&expected().challenge, "webauthn.get"))
}

#[test]
fn the_three_algorithms_are_accepted() {
    let pem = journeyman_testkit::code_host::rsa_key();
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let rsa = RsaKeyPair::from_pkcs8(&STANDARD.decode(lines).unwrap()).unwrap();
    for pair in [
        Pair::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap()),
        Pair::Ed25519(Ed25519KeyPair::generate().unwrap()),
        Pair::Rs256(Box::new(rsa)),
    ] {
        let mut device = Device::of(pair);
        device.counter = 7;
        let passkey = passkey(&device);
        assert_eq!((passkey.credential.as_str(), passkey.counter), ("Y3JlZGVudGlhbA", 7));
        assert_eq!(passkey.key, URL_SAFE_NO_PAD.encode(device.cose_key()), "without the extensions");
        device.counter = 8;
        let presented = present(&device, std::slice::from_ref(&passkey)).unwrap();
        assert_eq!((presented.counter, &presented.key), (8, &passkey.key));
        assert_eq!(presented.challenge, expected().used());
        let mut answer: serde_json::Value =
            serde_json::from_str(&device.got(&expected().challenge, "webauthn.get")).unwrap();
        let mut data = device.authenticator_data(0);
        data[36] ^= 1;
        answer["response"]["authenticatorData"] = json!(URL_SAFE_NO_PAD.encode(data));
        let changed = verify::assertion(&expected(), "user", &[passkey], &answer.to_string());
        assert_eq!(changed, Err(PasskeyRefusal::WrongSignature), "another counter than was signed");
    }
}

/// A change of a device.
type Change = fn(&mut Device);

/// Changes after which an answer is refused, whether it is for a new passkey or for one that exists.
const CHANGES: [(Change, PasskeyRefusal); 8] = [
    (|device| device.other_origin = Some("http://localhost:8081".to_owned()), PasskeyRefusal::OtherSite),
    (|device| device.other_origin = Some("https://localhost:8080".to_owned()), PasskeyRefusal::OtherSite),
    (|device| device.other_origin = Some("http://localhost:8080.example.com".to_owned()), PasskeyRefusal::OtherSite),
    (|device| device.is_framed = true, PasskeyRefusal::OtherSite),
    (
        |device| {
            device.other_origin = Some(device.site.origin.clone());
            device.site.id = "example.com".to_owned();
        },
        PasskeyRefusal::OtherSite,
    ),
    (|device| device.flags = 1, PasskeyRefusal::NotVerified),
    (|device| device.flags = 4, PasskeyRefusal::NotVerified),
    (|device| device.flags = 0, PasskeyRefusal::NotVerified),
];

#[test]
fn an_answer_for_another_site_or_without_the_user_is_refused() {
    for (at, (change, refusal)) in CHANGES.into_iter().enumerate() {
        let mut device = Device::new();
        let passkey = passkey(&device);
        change(&mut device);
        assert_eq!(present(&device, &[passkey]), Err(refusal), "{at}");
        assert_eq!(register(&device).unwrap_err(), refusal, "{at}");
    }
}

#[test]
fn an_answer_to_another_challenge_or_another_request_is_refused() {
    let device = Device::new();
    let passkeys = [passkey(&device)];
    let answer = |challenge, kind| verify::assertion(&expected(), "user", &passkeys, &device.got(challenge, kind));
    assert_eq!(answer("b3RoZXI", "webauthn.get"), Err(PasskeyRefusal::OtherChallenge));
    assert_eq!(answer("Y2hhbGxlbmdl", "webauthn.create"), Err(PasskeyRefusal::Unreadable));
    let created = device.created("b3RoZXI", &device.cose_key());
    assert_eq!(verify::registration(&expected(), &created).unwrap_err(), PasskeyRefusal::OtherChallenge);
    let got = device.got("Y2hhbGxlbmdl", "webauthn.get");
    assert_eq!(verify::registration(&expected(), &got).unwrap_err(), PasskeyRefusal::Unreadable);
}

#[test]
fn another_key_another_credential_and_another_user_are_refused() {
    let device = Device::new();
    let other = passkey(&Device::new());
    assert_eq!(present(&device, &[]), Err(PasskeyRefusal::Unknown));
    assert_eq!(present(&device, &[other]), Err(PasskeyRefusal::WrongSignature));
    let renamed = Passkey { credential: "b3RoZXI".to_owned(), ..passkey(&device) };
    assert_eq!(present(&device, &[renamed]), Err(PasskeyRefusal::Unknown));
    let of_another = Device { user_handle: Some("another".to_owned()), ..device };
    let passkeys = [passkey(&of_another)];
    assert_eq!(present(&of_another, &passkeys), Err(PasskeyRefusal::Unknown));
    let of_user = Device { user_handle: Some("user".to_owned()), ..of_another };
    assert!(present(&of_user, &passkeys).is_ok());
}

#[test]
fn malformed_answers_are_refused() {
    let device = Device::new();
    let passkeys = [passkey(&device)];
    let challenge = expected().challenge;
    let good = [device.got(&challenge, "webauthn.get"), device.created(&challenge, &device.cose_key())];
    let read = |answer: &str| {
        let presented = verify::assertion(&expected(), "user", &passkeys, answer).map(drop);
        (presented, verify::registration(&expected(), answer).map(drop))
    };
    let unreadable = (Err(PasskeyRefusal::Unreadable), Err(PasskeyRefusal::Unreadable));
    for answer in ["", "{}", "[]", "null", &"x".repeat(100_000)] {
        assert_eq!(read(answer), unreadable, "{answer:.20}");
    }
    for answer in &good {
        assert_eq!(read(&answer.replace("public-key", "other")), unreadable);
        let value: serde_json::Value = serde_json::from_str(answer).unwrap();
        for field in ["clientDataJSON", "authenticatorData", "signature", "attestationObject"] {
            let Some(full) = value["response"][field].as_str() else { continue };
            // Every shorter text, and one that is not base64url.
            for text in (0..full.len()).map(|length| &full[..length]).chain(["?"]) {
                let mut changed = value.clone();
                changed["response"][field] = json!(text);
                let (presented, registered) = read(&changed.to_string());
                assert!(presented.is_err() && registered.is_err(), "{field} {text}");
            }
        }
    }
    let other_id = good[1].replace("Y3JlZGVudGlhbA", "b3RoZXI");
    assert_eq!(verify::registration(&expected(), &other_id).unwrap_err(), PasskeyRefusal::Unreadable);
}

#[test]
fn keys_of_other_algorithms_and_malformed_keys_are_refused() {
    let device = Device::new();
    let entry = |label: i64, value: Value| (Value::from(label), value);
    let coordinate = |length: usize| Value::Bytes(vec![1; length]);
    let number = |number: i64| Value::from(number);
    let es256 = |curve, x, y| {
        vec![entry(1, number(2)), entry(3, number(-7)), entry(-1, number(curve)), entry(-2, x), entry(-3, y)]
    };
    let es384 = vec![entry(1, number(2)), entry(3, number(-35)), entry(-1, number(2)), entry(-2, coordinate(48))];
    let rsa = |bytes| {
        vec![entry(1, number(3)), entry(3, number(-257)), entry(-1, coordinate(bytes)), entry(-2, coordinate(3))]
    };
    for map in [
        vec![],
        es384,
        es256(2, coordinate(32), coordinate(32)),
        es256(1, coordinate(31), coordinate(32)),
        es256(1, coordinate(32), coordinate(33)),
        es256(1, coordinate(32), number(1)),
        rsa(128),
        rsa(2000),
        vec![entry(1, number(1)), entry(3, number(-8)), entry(-1, number(6)), entry(-2, coordinate(31))],
        vec![entry(1, number(2)), entry(3, number(-8)), entry(-1, number(6)), entry(-2, coordinate(32))],
    ] {
        let answer = device.created(&expected().challenge, &cbor(&Value::Map(map.clone())));
        let refusal = verify::registration(&expected(), &answer).unwrap_err();
        assert_eq!(refusal, PasskeyRefusal::UnknownAlgorithm, "{map:?}");
    }
    // A key that is not a point of the curve verifies nothing.
    let no_point = device.created(&expected().challenge, &cbor(&Value::Map(es256(1, coordinate(32), coordinate(32)))));
    let Registered { credential, key, counter } = verify::registration(&expected(), &no_point).unwrap();
    let passkey = Passkey { credential, key, counter, ..passkey(&device) };
    assert_eq!(present(&device, &[passkey]), Err(PasskeyRefusal::WrongSignature));
}

#[test]
fn passkeys_need_https_or_localhost_and_a_host_name() {
    for (url, id, origin) in [
        ("https://jobs.example.com", "jobs.example.com", "https://jobs.example.com"),
        ("https://Jobs.Example.com:443", "jobs.example.com", "https://jobs.example.com"),
        ("https://jobs.example.com:8443/path", "jobs.example.com", "https://jobs.example.com:8443"),
        ("http://localhost:8080", "localhost", "http://localhost:8080"),
        ("http://localhost:80", "localhost", "http://localhost"),
        ("http://jobs.localhost", "jobs.localhost", "http://jobs.localhost"),
    ] {
        assert_eq!(site(url), Ok(Site { id: id.to_owned(), origin: origin.to_owned() }), "{url}");
    }
    for (url, reason) in [
        ("http://jobs.example.com", "need https"),
        ("http://notlocalhost", "need https"),
        ("http://127.0.0.1:8080", "IP address"),
        ("https://192.0.2.1", "IP address"),
        ("https://[2001:db8::1]:8443", "IP address"),
    ] {
        assert!(site(url).unwrap_err().contains(reason), "{url}");
    }
}
