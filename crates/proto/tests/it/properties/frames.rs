//! Frames: what is written is read, and bytes of any kind are survived.

use interlock_proto::{
    Params, RequestId, Version,
    batch::{self, Incoming},
    era,
    frame::{self, ErrorId, Frame, Limits, Malformed, Reply},
    negotiation::Offer,
    refusal::{Code, Refusal},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json, value::RawValue};

const MODERN: &str = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a",
    "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
             "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}"#;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
    "protocolVersion":"2025-11-25","capabilities":{"roots":{},"x":{}},
    "clientInfo":{"name":"me","version":"1"}}}"#;

fn id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::from),
        ".{0,12}".prop_map(|text| RequestId::from(&*text)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["2026-07-28", "2025-11-25", "2.0", "initialize"])
            .prop_map(Value::from),
    ];
    let name = prop_oneof![
        ".{0,6}",
        prop::sample::select(vec![
            "_meta",
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientCapabilities",
            "protocolVersion",
            "capabilities",
            "clientInfo",
            "name",
            "version",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A message as text, well-formed and written the way somebody else might.
fn message() -> impl Strategy<Value = String> {
    let built = (id(), ".{0,12}", prop::option::of(value()), 0..4_u8).prop_map(
        |(id, method, params, kind)| {
            let mut object = json!({"jsonrpc": "2.0"});
            if kind != 1 {
                object["id"] = serde_json::to_value(&id).unwrap();
            }
            match kind {
                0 | 1 => object["method"] = method.into(),
                2 => object["result"] = params.clone().unwrap_or_default(),
                _ => object["error"] = json!({"code": 1, "message": method}),
            }
            if let (0 | 1, Some(params)) = (kind, params) {
                object["params"] = params;
            }
            serde_json::to_string_pretty(&object).unwrap()
        },
    );
    prop_oneof![
        4 => built,
        1 => Just(MODERN.to_owned()),
        1 => Just(HELLO.to_owned()),
    ]
}

/// A change to some bytes, at a place.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Delete(usize, usize),
    Repeat(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(br#"{}[]",:\0n"#.to_vec())];
    prop_oneof![
        (any::<usize>(), byte.clone()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), prop::collection::vec(byte, 1..4))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<usize>(), 1..20_usize).prop_map(|(at, n)| Change::Delete(at, n)),
        (any::<usize>(), 1..40_usize).prop_map(|(at, n)| Change::Repeat(at, n)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: Vec<Change>) -> Vec<u8> {
    for change in changes {
        let len = bytes.len();
        match change {
            Change::Set(at, byte) if len > 0 => bytes[at % len] = byte,
            Change::Set(..) => {}
            Change::Insert(at, more) => {
                let at = at % (len + 1);
                bytes.splice(at..at, more);
            }
            Change::Delete(at, n) => {
                let at = at % (len + 1);
                bytes.drain(at..(at + n).min(len));
            }
            Change::Repeat(at, n) => {
                let at = at % (len + 1);
                let piece = bytes[at..(at + n).min(len)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Whatever this is, it is survived, and what is wrong with it can be said on one line.
fn survive(bytes: &[u8]) {
    match frame::parse(bytes, &Limits::default()) {
        Ok(frame) => read_on(&frame),
        Err(malformed) => check_malformed(&malformed),
    }
    for version in Version::ALL.iter().copied().map(Some).chain([None]) {
        match batch::parse(bytes, &Limits::default(), version) {
            Ok(Incoming::One(_)) => {}
            Ok(Incoming::Batch(batch)) => {
                assert!(version.is_some_and(Version::has_batches) && !batch.members.is_empty());
                batch.members.iter().flatten().for_each(read_on);
            }
            Err(malformed) => check_malformed(&malformed),
        }
    }
}

fn read_on(frame: &Frame<'_>) {
    if let Frame::Request(request) = frame {
        if let Err(refusal) = era::modern(request.params.as_ref()) {
            check_refusal(&refusal);
        }
        if let Err(refusal) = Offer::read(request.params.as_ref()) {
            check_refusal(&refusal);
        }
    }
}

fn check_refusal(refusal: &Refusal) {
    assert!((1001..=1089).contains(&refusal.code().number()));
}

fn check_malformed(malformed: &Malformed) {
    check_refusal(&malformed.refusal);
    let mut out = Vec::new();
    let id = malformed.error_id(None);
    frame::write_error(&mut out, &id, &malformed.refusal);
    let answer: Value = serde_json::from_slice(&one_line(&out)).unwrap();
    assert_eq!(answer["error"]["code"], malformed.refusal.rpc_code().0);
    assert_eq!(answer.get("result"), None);
}

fn one_line(out: &[u8]) -> Vec<u8> {
    assert!(!out.contains(&b'\n') && !out.contains(&b'\r'), "{out:?}");
    out.to_vec()
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(serde_json::to_string_pretty(value).unwrap()).unwrap()
}

fn read(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

proptest! {
    #[test]
    fn a_request_reads_as_it_is_written(id in id(), method in ".*", params in value()) {
        let mut object = json!({"jsonrpc": "2.0", "method": method, "params": params});
        object["id"] = serde_json::to_value(&id).unwrap();
        let text = serde_json::to_string_pretty(&object).unwrap();
        let Ok(Frame::Request(request)) = frame::parse(text.as_bytes(), &Limits::default()) else {
            panic!("{text}")
        };
        assert_eq!((&request.id, &*request.method), (&id, &*method));
        let text = request.params.unwrap().get();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), params);
    }

    #[test]
    fn a_result_reads_as_it_is_written_and_is_one_line(id in id(), result in value()) {
        let mut out = Vec::new();
        frame::write_result(&mut out, &id, &raw(&result)).unwrap();
        let out = one_line(&out);
        let Ok(Frame::Response(response)) = frame::parse(&out, &Limits::default()) else {
            panic!("{out:?}")
        };
        assert_eq!(response.id, Some(id));
        assert_eq!(read(response.outcome.unwrap()), result);
    }

    #[test]
    fn an_error_reads_as_it_is_written_and_is_one_line(
        id in id(),
        code in prop::sample::select(Code::ALL),
        why in ".*",
    ) {
        let refusal = Refusal::new(code).because(why.clone());
        let mut out = Vec::new();
        frame::write_error(&mut out, &ErrorId::Known(id.clone()), &refusal);
        let out = one_line(&out);
        let Ok(Frame::Response(response)) = frame::parse(&out, &Limits::default()) else {
            panic!("{out:?}")
        };
        assert_eq!(response.id, Some(id.clone()));
        let error = read(response.outcome.unwrap_err());
        assert_eq!(error["message"], why);
        assert_eq!(error["data"]["refusal"]["code"], code.number());

        let mut again = Vec::new();
        frame::write_raw_error(&mut again, &id, &raw(&error)).unwrap();
        let again: Value = serde_json::from_slice(&one_line(&again)).unwrap();
        assert_eq!(again["error"], error);
    }

    #[test]
    fn a_notification_reads_as_it_is_written_and_is_one_line(
        method in ".*",
        params in prop::option::of(prop::collection::vec(value(), 0..3).prop_map(Value::Array)),
    ) {
        let mut out = Vec::new();
        frame::write_notification(&mut out, &method, params.as_ref().map(raw).as_ref()).unwrap();
        let out = one_line(&out);
        let Ok(Frame::Notification(told)) = frame::parse(&out, &Limits::default()) else {
            panic!("{out:?}")
        };
        assert_eq!(told.method, method);
        assert_eq!(told.params.map(read), params);
    }

    #[test]
    fn bytes_of_any_kind_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }

    #[test]
    fn changed_messages_are_survived(
        message in message(),
        changes in prop::collection::vec(change(), 0..6),
    ) {
        survive(&changed(message.into_bytes(), changes));
    }

    #[test]
    fn changed_batches_are_survived(
        messages in prop::collection::vec(message(), 0..4),
        changes in prop::collection::vec(change(), 0..4),
    ) {
        survive(&changed(format!("[{}]", messages.join(",")).into_bytes(), changes));
    }

    /// Members in any order, of any type, missing or there twice.
    #[test]
    fn an_id_that_can_be_read_is_echoed_and_what_has_none_is_not_answered(
        members in prop::collection::vec((
            prop::sample::select(vec!["jsonrpc", "id", "method", "params", "result", "error", "x"]),
            prop_oneof![
                3 => Just(json!("2.0")),
                2 => id().prop_map(|id| serde_json::to_value(id).unwrap()),
                1 => value(),
            ],
        ), 0..7),
    ) {
        let written: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let text = format!("{{{}}}", written.join(","));
        let count = |wanted| members.iter().filter(|(name, _)| *name == wanted).count();
        let Err(malformed) = frame::parse(text.as_bytes(), &Limits::default()) else {
            return Ok(());
        };
        check_malformed(&malformed);
        if count("method") > 0 && count("id") == 0 {
            assert_eq!(malformed.reply, Reply::None, "{text}");
        }
        if count("method") > 0 && count("id") > 0 {
            assert_eq!(malformed.reply, Reply::Error, "{text}");
        }
        if count("id") == 1 {
            let (_, id) = members.iter().find(|(name, _)| *name == "id").unwrap();
            assert_eq!(malformed.id, RequestId::read(&raw(id)), "{text}");
        } else {
            assert_eq!(malformed.id, None, "{text}");
        }
    }

    #[test]
    fn a_member_of_a_batch_is_judged_as_if_it_stood_alone(
        messages in prop::collection::vec(
            prop_oneof![4 => message(), 1 => value().prop_map(|value| value.to_string())],
            1..6,
        ),
    ) {
        let text = format!("[{}]", messages.join(",\n"));
        let version = Some(Version::V2025_03_26);
        let Ok(Incoming::Batch(batch)) = batch::parse(text.as_bytes(), &Limits::default(), version)
        else {
            panic!("{text}")
        };
        assert_eq!(batch.members.len(), messages.len());
        let mut answers = batch.answers();
        let mut expected = 0;
        for (member, message) in batch.members.iter().zip(&messages) {
            let alone = frame::parse(message.as_bytes(), &Limits::default());
            let outside = match &alone {
                Ok(Frame::Request(request)) => {
                    request.method == "initialize"
                        || !matches!(era::modern(request.params.as_ref()), Ok(None))
                }
                Ok(Frame::Notification(_) | Frame::Response(_)) | Err(_) => false,
            };
            assert_eq!(member.is_ok(), alone.is_ok() && !outside, "{message}");
            let answered = match member {
                Ok(Frame::Request(_)) => true,
                Ok(Frame::Notification(_) | Frame::Response(_)) => false,
                Err(malformed) => malformed.reply == Reply::Error,
            };
            if answered {
                assert!(!answers.is_complete());
                let mut out = Vec::new();
                frame::write_result(&mut out, &expected.into(), &expected).unwrap();
                answers.answered(&out);
                expected += 1;
            }
        }
        assert!(answers.is_complete());
        match answers.finish() {
            None => assert_eq!(expected, 0),
            Some(line) => {
                let array: Vec<Value> = serde_json::from_slice(&one_line(&line)).unwrap();
                let ids: Vec<_> = array.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
                assert_eq!(ids, (0..expected).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn modern_meta_of_any_shape_is_survived(params in value()) {
        let raw = raw(&params);
        let meta = params.get("_meta").and_then(|meta| {
            meta.get("io.modelcontextprotocol/protocolVersion")
        });
        match era::modern(Some(&Params::new(&raw))) {
            Ok(Some(modern)) => assert_eq!(meta, Some(&json!(modern.version))),
            Ok(None) => assert!(meta.is_none() || meta == Some(&Value::Null), "{params}"),
            Err(refusal) => {
                check_refusal(&refusal);
                assert!(meta.is_some());
            }
        }
    }
}
