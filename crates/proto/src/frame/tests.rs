//! What is a message, what is none, and how both are written.

use super::*;

fn read(text: &str) -> Result<Frame<'_>, Malformed> {
    parse(text.as_bytes(), &Limits::default())
}

#[track_caller]
fn check_id(written: &str, id: RequestId) {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{written},"method":"m"}}"#);
    match read(&text) {
        Ok(Frame::Request(request)) => assert_eq!(request.id, id),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_malformed(text: &str, rpc: RpcCode, id: Option<RequestId>, reply: Reply) {
    let malformed = read(text).unwrap_err();
    assert_eq!(malformed.refusal.rpc_code(), rpc, "{malformed:?}");
    assert_eq!(malformed.id, id, "{malformed:?}");
    assert_eq!(malformed.reply, reply, "{malformed:?}");
}

#[test]
fn the_three_kinds_are_told_apart() {
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1]}}"#),
        Ok(Frame::Request(Request { params: Some(params), .. })) if params.get() == r#"{"a":[1]}"#
    ));
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","method":"m"}"#),
        Ok(Frame::Notification(Notification { params: None, .. }))
    ));
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
        Ok(Frame::Response(Response { outcome: Ok(raw), .. })) if raw.get() == "null"
    ));
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#),
        Ok(Frame::Response(Response {
            id: None,
            outcome: Err(_)
        }))
    ));
}

#[test]
fn ids_are_strings_or_integers_however_written() {
    check_id("1", 1.into());
    check_id("-7", (-7).into());
    check_id("1.0", 1.into());
    check_id("1e2", 100.into());
    check_id("9223372036854775807", i64::MAX.into());
    check_id(r#""a\"é\u00e9""#, "a\"éé".into());
    check_id(r#""""#, "".into());
}

#[test]
fn an_escaped_method_is_read() {
    let Ok(Frame::Request(request)) = read(r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call"}"#)
    else {
        panic!()
    };
    assert_eq!(request.method, "tools/call");
}

#[test]
fn what_is_no_message_is_answered_with_the_id_that_could_be_read() {
    let one = Some(RequestId::Number(1));
    let invalid = RpcCode::INVALID_REQUEST;
    check_malformed("{", RpcCode::PARSE_ERROR, None, Reply::Error);
    check_malformed("", RpcCode::PARSE_ERROR, None, Reply::Error);
    check_malformed("{} x", RpcCode::PARSE_ERROR, None, Reply::Error);
    check_malformed("42", invalid, None, Reply::Error);
    check_malformed("[]", invalid, None, Reply::Error);
    check_malformed("{}", invalid, None, Reply::Error);
    check_malformed(
        r#"{"id":1,"method":"m"}"#,
        invalid,
        one.clone(),
        Reply::Error,
    );
    check_malformed(
        r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
        invalid,
        one.clone(),
        Reply::Error,
    );
    check_malformed(
        r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
        invalid,
        one.clone(),
        Reply::Error,
    );
    check_malformed(r#"{"jsonrpc":"2.0","id":1}"#, invalid, one, Reply::Error);
    for id in ["null", "true", "1.5", "1e300", "{}", "[1]", r#""\ud800""#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        check_malformed(&text, invalid, None, Reply::Error);
    }
}

#[test]
fn an_integer_of_more_than_64_bits_is_refused_with_that_very_integer() {
    let long = "9".repeat(1_000);
    for id in ["9223372036854775808", "-9223372036854775809", &long] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        let malformed = parse(text.as_bytes(), &Limits::default()).unwrap_err();
        assert_eq!(malformed.reply, Reply::Error);
        let mut out = Vec::new();
        write_error(&mut out, &malformed.error_id(None), &malformed.refusal);
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(&format!(r#""id":{id},"#)), "{out}");
    }
}

#[test]
fn malformed_notifications_and_responses_are_not_answered() {
    let invalid = RpcCode::INVALID_REQUEST;
    check_malformed(
        r#"{"jsonrpc":"1.0","method":"m"}"#,
        invalid,
        None,
        Reply::None,
    );
    check_malformed(
        r#"{"jsonrpc":"2.0","method":5}"#,
        invalid,
        None,
        Reply::None,
    );
    check_malformed(
        r#"{"jsonrpc":"2.0","result":1}"#,
        invalid,
        None,
        Reply::None,
    );
    check_malformed(
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
        invalid,
        Some(1.into()),
        Reply::None,
    );
}

/// A derived reader takes an array for an object, by the order of its members.
#[test]
fn an_array_is_no_message() {
    for text in [
        r#"["2.0", 1, "ping"]"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
    ] {
        let malformed = read(text).unwrap_err();
        assert!(
            malformed.refusal.message().contains("batches"),
            "{malformed:?}"
        );
    }
}

#[test]
fn a_member_that_is_there_twice_costs_neither_the_id_nor_the_silence() {
    let invalid = RpcCode::INVALID_REQUEST;
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#;
    check_malformed(twice, invalid, Some(1.into()), Reply::Error);
    let untold = r#"{"jsonrpc":"2.0","method":"a","params":{},"params":{}}"#;
    check_malformed(untold, invalid, None, Reply::None);
    let whose = r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#;
    check_malformed(whose, invalid, None, Reply::Error);
    let both = r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a","method":"a"}"#;
    check_malformed(both, invalid, None, Reply::Error);
    assert!(read(r#"{"jsonrpc":"2.0","method":"a","x":1,"x":2}"#).is_ok());
}

#[test]
fn invalid_utf8_is_a_parse_error() {
    let malformed = parse(b"{\"jsonrpc\":\"2.0\xff\"}", &Limits::default()).unwrap_err();
    assert_eq!(malformed.refusal.code(), Code::UnsupportedEncoding);
    assert_eq!(malformed.refusal.rpc_code(), RpcCode::PARSE_ERROR);
}

#[test]
fn size_nesting_and_id_are_bounded() {
    let limits = Limits {
        bytes: 100,
        depth: 3,
        id_bytes: 10,
    };
    let code = |text: &str| {
        parse(text.as_bytes(), &limits)
            .map(|_| ())
            .map_err(|malformed| malformed.refusal.code())
    };
    assert_eq!(code(&"x".repeat(101)), Err(Code::MessageTooLarge));
    let deep = |params: &str| format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
    assert_eq!(code(&deep("[[1],[2],[3]]")), Ok(()));
    assert_eq!(code(&deep("[[[1]]]")), Err(Code::ProtocolError));
    assert_eq!(code(&deep(r#"["[[[[[[\"[[["]"#)), Ok(()));
    let long = r#"{"jsonrpc":"2.0","id":"0123456789","method":"m"}"#;
    assert_eq!(code(long), Err(Code::ProtocolError));
}

#[test]
fn what_reaches_a_limit_does_not_exceed_it() {
    let message = r#"{"jsonrpc":"2.0","id":"0123456789","method":"m","params":[{}]}"#;
    let exact = Limits {
        bytes: message.len(),
        depth: 3,
        id_bytes: r#""0123456789""#.len(),
    };
    assert!(parse(message.as_bytes(), &exact).is_ok());
    for limits in [
        Limits {
            bytes: exact.bytes - 1,
            ..exact
        },
        Limits { depth: 2, ..exact },
        Limits {
            id_bytes: exact.id_bytes - 1,
            ..exact
        },
    ] {
        assert!(parse(message.as_bytes(), &limits).is_err(), "{limits:?}");
    }
}

#[test]
fn a_version_with_escapes_is_the_same_version() {
    let escaped = r#"{"jsonrpc":"2\u002e0","method":"m"}"#;
    assert!(matches!(read(escaped), Ok(Frame::Notification(_))));
}

#[test]
fn only_an_array_is_called_a_batch() {
    let message = |text: &str| read(text).unwrap_err().refusal.message().to_owned();
    assert!(message(" []").contains("batches"));
    assert!(!message("42").contains("batches"));
}

#[test]
fn a_hundred_thousand_brackets_are_refused() {
    let malformed = parse(&vec![b'['; 100_000], &Limits::default()).unwrap_err();
    assert_eq!(malformed.refusal.rpc_code(), RpcCode::INVALID_REQUEST);
}

#[test]
fn each_message_is_one_line() {
    let raw = RawValue::from_string("{\n \"a\":\r\n\"\\n\"}".to_owned()).unwrap();
    let mut out = b"before\n".to_vec();
    write_result(&mut out, &1.into(), &raw).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "before\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{  \"a\":  \"\\n\"}}"
    );
}

#[test]
fn an_unread_id_is_left_out_or_null() {
    let refusal = Refusal::new(Code::ProtocolError);
    let text = |id| {
        let mut out = Vec::new();
        write_error(&mut out, &id, &refusal);
        String::from_utf8(out).unwrap()
    };
    assert!(text(ErrorId::Absent).starts_with(r#"{"jsonrpc":"2.0","error""#));
    assert!(text(ErrorId::Null).starts_with(r#"{"jsonrpc":"2.0","id":null,"error""#));
    assert!(text(ErrorId::Known(7.into())).starts_with(r#"{"jsonrpc":"2.0","id":7,"#));
}

#[test]
fn an_unread_id_is_null_before_2025_11_25() {
    for (version, id) in [
        (None, ErrorId::Absent),
        (Some(Version::V2024_11_05), ErrorId::Null),
        (Some(Version::V2025_06_18), ErrorId::Null),
        (Some(Version::V2025_11_25), ErrorId::Absent),
        (Some(Version::V2026_07_28), ErrorId::Absent),
    ] {
        assert_eq!(ErrorId::unread(version), id, "{version:?}");
    }
}

#[test]
fn an_error_made_elsewhere_is_passed_on_as_it_is() {
    let error = RawValue::from_string(r#"{"code": 7,"x":1}"#.to_owned()).unwrap();
    let mut out = Vec::new();
    write_raw_error(&mut out, &"a".into(), &error).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"jsonrpc":"2.0","id":"a","error":{"code": 7,"x":1}}"#
    );
}

#[test]
fn a_notification_without_params_has_none() {
    let mut out = Vec::new();
    write_notification(&mut out, "notifications/x", None::<&()>).unwrap();
    assert_eq!(out, br#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
}
