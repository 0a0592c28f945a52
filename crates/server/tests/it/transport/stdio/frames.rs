//! Bytes: what is a message, what is not, and that neither ends the connection.

use crate::support::{
    client::{answer_to, nothing_comes},
    desk::{desk, desk_server, state},
    messages::{codes, hello, is_one_message},
    tools::tool,
};
use interlock::{Limits, Server};
use interlock_testkit::{Client, Connection, connect};
use serde_json::{Value, json};

async fn ready() -> (Client, Connection) {
    let (mut client, connection) = connect(&desk_server());
    client.initialize().await;
    (client, connection)
}

#[tokio::test]
async fn a_message_that_is_not_json_rpc_is_refused_with_its_id() {
    let (mut client, _connection) = ready().await;
    for line in [
        r#"{"id":7,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#,
        r#"{"jsonrpc":null,"id":7,"method":"ping"}"#,
        r#"{"jsonrpc":"2","id":7,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":7}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":["ping"]}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","error":{}}"#,
    ] {
        let answer = answer_to(&mut client, line).await;
        assert_eq!(answer["id"], 7, "{line}: {answer}");
        assert_eq!(answer["error"]["code"], -32600, "{line}: {answer}");
        nothing_comes(&mut client).await;
    }
}

/// JSON may be written with escapes, and means the same.
#[tokio::test]
async fn escapes_do_not_change_what_a_message_says() {
    let (mut client, _connection) = ready().await;
    for line in [
        r#"{"jsonrpc":"2.0","id":7,"method":"\u0070ing"}"#,
        r#"{"jsonrpc":"2.0","\u0069d":7,"method":"ping"}"#,
        r#" { "method" : "ping" , "id" : 7 , "jsonrpc" : "2.0" } "#,
        r#"{"jsonrpc":"2\u002e0","id":7,"method":"ping"}"#,
    ] {
        let answer = answer_to(&mut client, line).await;
        let expected = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
        assert_eq!(answer, expected, "{line}");
    }
}

#[tokio::test]
async fn ids_are_echoed_as_they_were_meant() {
    let (mut client, _connection) = ready().await;
    for (written, echoed) in [
        ("0", json!(0)),
        ("-5", json!(-5)),
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1.0", json!(1)),
        ("1e2", json!(100)),
        ("-0", json!(0)),
        (r#""""#, json!("")),
        (r#""1""#, json!("1")),
        (r#""null""#, json!("null")),
        (
            r#""ключ 🚀 \u00e9\n\u0000\"\\""#,
            json!("ключ 🚀 é\n\0\"\\"),
        ),
        (r#""\ud83d\ude80""#, json!("🚀")),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{written},"method":"ping"}}"#);
        let answer = answer_to(&mut client, &line).await;
        assert_eq!(answer["id"], echoed, "{written}");
        assert_eq!(answer["result"], json!({}));
    }
}

#[tokio::test]
async fn ids_that_are_none_are_refused_without_one() {
    let (mut client, _connection) = ready().await;
    let long = format!("{:?}", "x".repeat(2_000));
    for written in [
        "null",
        "true",
        "1.5",
        "1e300",
        "1e999",
        "{}",
        "[1]",
        r#""\ud800""#,
        &long,
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{written},"method":"ping"}}"#);
        let answer = answer_to(&mut client, &line).await;
        assert_eq!(answer.get("id"), None, "{written}: {answer}");
        assert_eq!(answer["error"]["code"], -32600, "{written}: {answer}");
        assert!(answer.to_string().len() < 1_000);
        nothing_comes(&mut client).await;
    }
}

#[tokio::test]
async fn an_integer_of_more_than_64_bits_is_refused_with_that_integer() {
    let (mut client, _connection) = ready().await;
    for written in [
        "9223372036854775808",
        "-9223372036854775809",
        "123456789012345678901234567890",
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{written},"method":"ping"}}"#);
        let answer = answer_to(&mut client, &line).await;
        let id: Value = serde_json::from_str(written).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        nothing_comes(&mut client).await;
    }
}

#[tokio::test]
async fn an_id_that_could_not_be_read_is_null_before_2025_11_25_and_left_out_since() {
    let (mut client, _connection) = connect(&desk_server());
    let answer = answer_to(&mut client, "nonsense").await;
    assert_eq!(answer.get("id"), None);
    for (version, id) in [
        ("2024-11-05", Some(&Value::Null)),
        ("2025-03-26", Some(&Value::Null)),
        ("2025-06-18", Some(&Value::Null)),
        ("2025-11-25", None),
        ("2026-07-28", None),
    ] {
        let (mut client, _connection) = connect(&desk_server());
        client.request("initialize", hello(version)).await;
        for line in [
            "nonsense",
            "[]",
            r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#,
        ] {
            let answer = answer_to(&mut client, line).await;
            assert_eq!(answer.get("id"), id, "{version} {line}: {answer}");
        }
    }
}

#[tokio::test]
async fn what_is_not_json_is_a_parse_error() {
    let (mut client, _connection) = ready().await;
    for line in [
        "nonsense",
        "{",
        "}",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping""#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        r#"{'jsonrpc':'2.0'}"#,
        "\u{feff}{}",
        "\0\0\0",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\tng\"}",
        "NaN",
    ] {
        let answer = answer_to(&mut client, line).await;
        assert_eq!(answer["error"]["code"], -32700, "{line:?}: {answer}");
        assert_eq!(answer.get("id"), None);
        nothing_comes(&mut client).await;
    }
}

#[tokio::test]
async fn json_that_is_no_object_is_no_message() {
    let (mut client, _connection) = ready().await;
    for line in ["5", "null", "true", r#""ping""#, "{}"] {
        let answer = answer_to(&mut client, line).await;
        assert_eq!(answer["error"]["code"], -32600, "{line}: {answer}");
        nothing_comes(&mut client).await;
    }
}

#[tokio::test]
async fn batches_are_refused_as_a_whole() {
    let (mut client, _connection) = ready().await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work"}}"#;
    for line in [
        "[]".to_owned(),
        format!("[{ping}]"),
        format!("[{ping},{call}]"),
        format!("[{call},5]"),
    ] {
        let answer = answer_to(&mut client, &line).await;
        assert_eq!(answer["error"]["code"], -32600, "{line}: {answer}");
        assert_eq!(answer.get("id"), None);
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("batch"),
            "{answer}"
        );
        nothing_comes(&mut client).await;
    }
    assert_eq!(state(&mut client).await, "open");
}

/// Serde reads a struct from an array as well; JSON-RPC knows no such message.
#[tokio::test]
async fn an_array_of_members_is_no_message() {
    let (mut client, _connection) = ready().await;
    for line in [
        r#"["2.0",1,"ping"]"#,
        r#"["2.0",1,"tools/call",{"name":"work","arguments":{}}]"#,
    ] {
        let answer = answer_to(&mut client, line).await;
        assert_eq!(answer["error"]["code"], -32600, "{line}: {answer}");
        assert_eq!(answer.get("id"), None, "{line}: {answer}");
    }
    assert_eq!(state(&mut client).await, "open");
}

#[tokio::test]
async fn bytes_that_are_not_utf_8_are_refused() {
    let (mut client, _connection) = ready().await;
    for bytes in [
        &b"\xff\xfe\n"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\xc3ng\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"\xed\xa0\x80\",\"method\":\"ping\"}\n",
    ] {
        client.send_bytes(bytes).await;
        let answer = client.receive().await.unwrap();
        assert_eq!(codes(&answer), (-32700, 1070), "{answer}");
        assert_eq!(answer.get("id"), None);
        nothing_comes(&mut client).await;
    }
}

#[tokio::test]
async fn a_line_of_17_megabytes_is_refused_and_the_connection_goes_on() {
    let (mut client, _connection) = ready().await;
    for head in [
        "",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""#,
    ] {
        client.send_bytes(head.as_bytes()).await;
        let megabyte = vec![b'x'; 1024 * 1024];
        for _ in 0..17 {
            client.send_bytes(&megabyte).await;
        }
        client.send_bytes(b"\"}}\n").await;
        let answer = client.receive().await.unwrap();
        assert_eq!(codes(&answer), (-32600, 1068), "{answer}");
        assert_eq!(answer.get("id"), None);
        nothing_comes(&mut client).await;
    }
    assert_eq!(state(&mut client).await, "open");
}

#[tokio::test]
async fn the_limit_is_exact() {
    let limits = Limits {
        bytes: 1_000,
        ..Limits::default()
    };
    let server = desk(tool("work")).limits(limits).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let line = |length: usize| {
        let head = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""#;
        let tail = r#""}}"#;
        format!(
            "{head}{}{tail}",
            "x".repeat(length - head.len() - tail.len())
        )
    };
    let answer = answer_to(&mut client, &line(1_000)).await;
    assert_eq!(answer["result"], json!({}));
    let answer = answer_to(&mut client, &line(1_001)).await;
    assert_eq!(codes(&answer), (-32600, 1068));
}

#[tokio::test]
async fn a_hundred_thousand_brackets_are_refused() {
    let (mut client, _connection) = ready().await;
    for bracket in ["[", "{\"a\":", "[{\"a\":"] {
        let deep = bracket.repeat(100_000);
        let answer = answer_to(&mut client, &deep).await;
        assert!(answer["error"]["code"].is_i64(), "{answer}");
        let inside = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{deep}"#);
        let answer = answer_to(&mut client, &inside).await;
        assert!(answer["error"]["code"].is_i64(), "{answer}");
        nothing_comes(&mut client).await;
    }
    let whole = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"work","arguments":{{"x":{whole}}}}}}}"#
    );
    let answer = answer_to(&mut client, &line).await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    // Brackets in a string are no nesting.
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"\"{}"}}}}"#,
        "[".repeat(100_000)
    );
    let answer = answer_to(&mut client, &line).await;
    assert_eq!(answer["result"], json!({}));
    assert_eq!(state(&mut client).await, "open");
}

#[tokio::test]
async fn whatever_is_not_too_deep_for_a_frame_is_not_too_deep_for_a_handler() {
    let (mut client, _connection) = ready().await;
    for inner in 120..=130 {
        let whole = format!("{}{}", "[".repeat(inner), "]".repeat(inner));
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"peek","arguments":{{"x":{whole}}}}}}}"#
        );
        let answer = answer_to(&mut client, &line).await;
        // Three levels are around it, and 128 are allowed.
        if inner + 3 <= 128 {
            assert_eq!(
                answer["result"]["content"][0]["text"], "peek is done",
                "{inner}: {answer}"
            );
        } else {
            assert_eq!(answer["error"]["code"], -32600, "{inner}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_megabyte_of_blank_lines_is_nothing() {
    let (mut client, _connection) = ready().await;
    for blank in ["\n", " \n", "\r\n", "\t \r\n"] {
        let lines = blank.repeat(1024 * 1024 / blank.len());
        client.send_bytes(lines.as_bytes()).await;
        nothing_comes(&mut client).await;
    }
    client.send_bytes(&vec![b' '; 1024 * 1024]).await;
    client.send_bytes(b"\n").await;
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn lines_may_end_in_crlf() {
    let (mut client, _connection) = ready().await;
    client
        .send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\r\n")
        .await;
    for id in [1, 2] {
        let expected = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        assert_eq!(client.receive().await, Some(expected));
    }
}

#[tokio::test]
async fn a_message_may_come_byte_by_byte() {
    let (mut client, _connection) = ready().await;
    let message = r#"{"jsonrpc":"2.0","id":"é🚀","method":"tools/call","params":{"name":"work"}}"#;
    for byte in message.bytes().chain([b'\n']) {
        client.send_bytes(&[byte]).await;
        tokio::task::yield_now().await;
    }
    let (notification, answer) = (
        client.receive().await.unwrap(),
        client.receive().await.unwrap(),
    );
    assert_eq!(notification["method"], "notifications/tools/list_changed");
    let others = [client_kind("resources"), client_kind("prompts")];
    assert!(others.contains(&answer["method"]), "{answer}");
    client.receive().await.unwrap();
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["id"], "é🚀");
    assert_eq!(answer["result"]["content"][0]["text"], "work is done");
}

fn client_kind(kind: &str) -> Value {
    json!(format!("notifications/{kind}/list_changed"))
}

#[tokio::test]
async fn many_messages_may_come_in_one_write() {
    let (mut client, _connection) = ready().await;
    let mut all = String::new();
    for id in 0..300 {
        let method = ["ping", "tools/list", "nobody/knows"][id % 3];
        all += &format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "id": id, "method": method})
        );
    }
    client.send_bytes(all.as_bytes()).await;
    for id in 0..300 {
        let answer = client.receive().await.unwrap();
        is_one_message(&answer);
        assert_eq!(answer["id"], id);
        assert_eq!(answer.get("error").is_some(), id % 3 == 2);
    }
}

#[tokio::test]
async fn a_last_line_without_an_end_is_a_message() {
    let (mut client, connection) = ready().await;
    client
        .send_bytes(br#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#)
        .await;
    client.hang_up();
    assert_eq!(client.receive().await.unwrap()["id"], "last");
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}

#[tokio::test]
async fn what_a_tool_says_stays_on_one_line() {
    let text = "one\ntwo\r\nthree\u{2028}four\u{0}";
    let server = Server::builder("lines", "0")
        .tool(interlock::Tool::new(
            "say",
            move |_: interlock::NoArguments, _: interlock::Context| async move { text },
        ))
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (_, result) = client.call("say", json!({})).await;
    assert_eq!(result["content"][0]["text"], text);
    nothing_comes(&mut client).await;
}
