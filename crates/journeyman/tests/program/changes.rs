//! Tests of changes of a project over the HTTP API and at the command line at the same time.

use std::collections::BTreeMap;

use journeyman_testkit::Postgres;
use serde_json::{Value, json};

use super::fixtures::{Service, Site, client, cluster, site};

/// The number of changes over the HTTP API, and of changes at the command line.
const CHANGES: usize = 10;

#[test]
fn changes_over_http_and_at_the_command_line_at_once_are_kept_by_sqlite() {
    change_at_once(&site());
}

#[test]
fn changes_over_http_and_at_the_command_line_at_once_are_kept_by_postgresql() {
    change_at_once(&cluster(&Postgres::shared().database(), ""));
}

fn change_at_once(site: &Site) {
    let service = site.start();
    let environment = || -> BTreeMap<String, Value> {
        serde_json::from_value(service.get("/v2/projects/shop")["environment"].clone()).unwrap()
    };
    assert!(environment().is_empty());
    std::thread::scope(|scope| {
        for number in 0..CHANGES {
            let service = &service;
            scope.spawn(move || {
                let patch = json!({ "environment": { format!("HTTP_{number}"): "1" } });
                let (status, answer) = service.call("PATCH", "/v2/projects/shop", Some(patch));
                assert_eq!(status, 200, "{answer}");
            });
            scope.spawn(move || site.succeed(&["project", "update", "shop", "--env", &format!("CLI_{number}=1")]));
        }
    });
    let names = (0..CHANGES).flat_map(|number| [format!("CLI_{number}"), format!("HTTP_{number}")]);
    let expected: BTreeMap<String, Value> = names.map(|name| (name, json!("1"))).collect();
    assert_eq!(environment(), expected, "every acknowledged change is kept");
    assert_eq!(audited(site, &service), 2 * CHANGES, "every change has one audit entry");
}

/// Returns the number of changes of projects in the audit log.
fn audited(site: &Site, service: &Service) -> usize {
    let cookie = service.use_link(&site.succeed(&["user", "add", "ada", "--role", "administrator"]));
    let client = client();
    let page = client.get(format!("{}/audit", service.url)).header("cookie", cookie).send().unwrap().text().unwrap();
    page.matches("project.changed").count()
}
