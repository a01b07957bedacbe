//! Tests of comments that bring what was said around them, and their images and files.

use journeyman_testkit::code_host::UploadedFile;
use serde_json::json;

use super::{World, prompts, until_inbox};

/// An agent that accepts images. It writes into the tree what it has got.
const AGENT: &str = r#"#!/bin/sh
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":CAN}},"authMethods":[]}}\n' "$id" ;;
    *'"method":"session/new"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s1"}}\n' "$id" ;;
    *'"method":"session/prompt"'*)
        { printf '%s' "$line" | grep -o '"mimeType":"[^"]*"'; ls "$HOME/comments"; cat "$HOME/comments/2-build.log"; } > got.txt
        printf '%s' "$line" | grep -o '"data":"[^"]*"' | cut -d '"' -f 4 | base64 -d > image.bin
        cmp image.bin "$HOME/comments/1-Before.png" > compared.txt 2>&1; echo "$?" >> compared.txt; rm image.bin
        printf '%s' "$line" > prompt.txt
        printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}\n' "$id" ;;
    esac
done
"#;

/// Adds a file that people have uploaded, and returns its address.
fn upload(world: &World, path: &str, content: &[u8]) -> String {
    let content_type = "application/octet-stream".to_owned();
    let file = UploadedFile { content: content.to_vec(), content_type, is_private: true, ..UploadedFile::default() };
    world.host.state().files.insert(path.to_owned(), file);
    format!("{}{path}", world.host.url)
}

#[test]
fn a_comment_brings_the_comments_above_it() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let (bob, maria) = (world.user("bob", "write"), world.user("maria", "write"));
    world.comment(number, bob, "It should also say [[append hello.txt|Goodbye]].");
    let (_, body) = world.comment(number, maria, "@journeyman-bot do what Bob said above");
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["message"]);
    service.settled(&job);
    assert_eq!(world.file(&world.branch(number), "hello.txt"), "Hello\nGoodbye\n");
    let prompts = prompts(&service, &job);
    assert!(prompts[1].starts_with("@journeyman-bot do what Bob said above\n\n## The conversation"), "{}", prompts[1]);
    assert!(prompts[1].contains("bob wrote a comment:\n\nIt should also say"), "{}", prompts[1]);
}

#[test]
fn images_and_files_arrive_in_the_sandbox_and_images_in_the_prompt_of_an_agent_that_can() {
    for can in [true, false] {
        let folder = crate::program::fixtures::open_folder().keep();
        let script = folder.join("agent.sh");
        std::fs::write(&script, AGENT.replace("CAN", if can { "true" } else { "false" })).unwrap();
        let script = script.display();
        let world =
            World::with(&format!("[agents.shell]\ncommand = [\"sh\", \"{script}\"]\nreadable = [\"{script}\"]"));
        let service = world.start();
        let maria = world.user("maria", "write");
        let (status, record) =
            service.call("POST", "/v2/agent/web/job", Some(json!({ "prompt": "Begin", "agent": "shell" })));
        assert_eq!(status, 201, "{record}");
        let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
        let record = service.settled(&job);
        assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
        let number: u64 = record["prLink"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
        let png = b"\x89PNG\r\n\x1a\nthe pixels";
        let before = upload(&world, "/user-attachments/assets/before", png);
        let log = upload(&world, "/user-attachments/files/1/build.log", b"it failed\n");
        let missing = format!("{}/user-attachments/assets/gone.png", world.host.url);
        let text = format!(
            "@journeyman-bot it should look as ![Before]({before}), see [the log]({log}) and ![gone.png]({missing}) \
             ![elsewhere](http://127.0.0.1:1/x.png)"
        );
        let (_, body) = world.comment(number, maria, &text);
        world.deliver_all(&service, "issue_comment", &[body]);
        until_inbox(&service, &["message"]);
        let record = service.settled(&job);
        assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
        let branch = world.branch(number);
        let mime = if can { "\"mimeType\":\"image/png\"\n" } else { "" };
        assert_eq!(world.file(&branch, "got.txt"), format!("{mime}1-Before.png\n2-build.log\nit failed\n"));
        let compared = world.file(&branch, "compared.txt");
        assert_eq!(compared.ends_with("0\n"), can, "the image of the prompt is that of the file: {compared}");
        let prompt = world.file(&branch, "prompt.txt");
        for part in [
            "The files of this text: `~/comments/1-Before`, `~/comments/2-build.log`, `~/comments/3-gone.png`.",
            "1 image is not here, because only uploads to the code host are fetched: 127.0.0.1.",
            "- `1-Before.png` (an image, 18 bytes), the file `1-Before` above",
            "- `3-gone.png` was not fetched: the code host did not find it",
        ] {
            assert!(prompt.contains(part), "{part} is not in {prompt}");
        }
        let requests = world.host.state().file_requests.clone();
        assert!(requests.iter().all(|(_, has_credential)| *has_credential), "{requests:?}");
    }
}
