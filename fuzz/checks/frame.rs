//! What holds for any bytes that a peer may send as a message.

use interlock_proto::{
    RequestId, Version,
    batch::{self, Incoming},
    frame::{
        ErrorId, Frame, Limits, Malformed, Notification, Reply, Request, Response, parse,
        write_error, write_notification, write_raw_error, write_result,
    },
};
use serde_json::{Value, value::RawValue};

const TIGHT: Limits = Limits {
    bytes: 256,
    depth: 4,
    id_bytes: 12,
};

/// Reading never panics. What was read can be written and is then read as the same; what could
/// not be read has an answer that the peer can read. Tighter limits refuse more and change nothing.
pub(crate) fn check(bytes: &[u8]) {
    let read = parse(bytes, &Limits::default());
    let tight = parse(bytes, &TIGHT);
    match &read {
        Ok(frame) => {
            let line = written(frame);
            let again = parse(&line, &Limits::default()).expect("what we wrote can be read");
            assert_eq!(seen(&again), seen(frame));
        }
        Err(malformed) => check_answers(malformed),
    }
    check_batch(bytes, &read);
    check_spaced(bytes, &read);
    match (&read, &tight) {
        (Ok(loose), Ok(tight)) => assert_eq!(seen(loose), seen(tight)),
        (Ok(_), Err(malformed)) => check_answers(malformed),
        (Err(_), Ok(frame)) => panic!("only tight limits allow {frame:?}"),
        (Err(_), Err(malformed)) => check_answers(malformed),
    }
}

/// Messages are read in two ways, and a space at the beginning leaves only the careful one.
fn check_spaced(bytes: &[u8], read: &Result<Frame<'_>, Malformed>) {
    let spaced = [b" ", bytes].concat();
    match (read, parse(&spaced, &Limits::default())) {
        (Ok(frame), Ok(spaced)) => assert_eq!(seen(frame), seen(&spaced)),
        (Err(_), Err(_)) => {}
        (one, other) => panic!("{one:?} and {other:?}"),
    }
}

/// A batch is answered with one array that holds an answer for each member that wants one.
fn check_batch(bytes: &[u8], alone: &Result<Frame<'_>, Malformed>) {
    let limits = Limits::default();
    match batch::parse(bytes, &limits, Some(Version::V2025_03_26)) {
        Ok(Incoming::One(frame)) => {
            assert_eq!(
                seen(&frame),
                seen(alone.as_ref().expect("it is one message"))
            );
        }
        Ok(Incoming::Batch(batch)) => {
            assert!((1..=batch::MOST).contains(&batch.members.len()));
            let mut answers = batch.answers();
            let mut wanted = 0;
            for member in &batch.members {
                let mut line = Vec::new();
                match member {
                    Ok(Frame::Request(request)) => {
                        write_result(&mut line, &request.id, &()).unwrap();
                    }
                    Err(malformed) if malformed.reply == Reply::Error => {
                        check_answers(malformed);
                        write_error(&mut line, &ErrorId::Null, &malformed.refusal);
                    }
                    Ok(Frame::Notification(_) | Frame::Response(_)) | Err(_) => continue,
                }
                assert!(!answers.is_complete());
                answers.answered(&line);
                wanted += 1;
            }
            assert!(answers.is_complete());
            match answers.finish() {
                Some(line) => assert_eq!(one_line(&line).as_array().unwrap().len(), wanted),
                None => assert_eq!(wanted, 0),
            }
        }
        Err(malformed) => check_answers(&malformed),
    }
}

fn check_answers(malformed: &Malformed) {
    let number = malformed.refusal.code().number();
    assert!((1001..=1089).contains(&number), "{malformed:?}");
    let ids = match malformed.error_id(None) {
        ErrorId::Absent | ErrorId::Null => vec![ErrorId::Absent, ErrorId::Null],
        // A value holds no number of any size.
        ErrorId::Number(_) => return,
        ErrorId::Known(id) => vec![ErrorId::Known(id)],
    };
    for id in ids {
        let mut line = Vec::new();
        write_error(&mut line, &id, &malformed.refusal);
        let answer = one_line(&line);
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(answer["error"]["code"].is_i64() && answer["error"]["message"].is_string());
        assert!(answer.get("result").is_none());
        match id {
            ErrorId::Known(id) => assert_eq!(answer["id"], serde_json::to_value(id).unwrap()),
            ErrorId::Number(_) => unreachable!("it is not checked"),
            ErrorId::Absent => assert!(answer.get("id").is_none()),
            ErrorId::Null => assert_eq!(answer.get("id"), Some(&Value::Null)),
        }
    }
}

/// One complete JSON text on one line.
fn one_line(line: &[u8]) -> Value {
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    serde_json::from_slice(line).expect("what we wrote is JSON")
}

fn written(frame: &Frame<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    match frame {
        Frame::Request(Request { id, method, params }) => {
            // The server answers requests and this crate writes none: a notification with an id.
            let params = params.map(|params| serde_json::from_str::<&RawValue>(params.get()));
            let params = params.transpose().expect("they were read as JSON");
            write_notification(&mut line, method, params).expect("raw JSON is JSON");
            let id = format!(r#","id":{}}}"#, serde_json::to_string(id).unwrap());
            line.pop();
            line.extend_from_slice(id.as_bytes());
        }
        Frame::Notification(Notification { method, params }) => {
            write_notification(&mut line, method, *params).expect("raw JSON is JSON");
        }
        Frame::Response(Response { id, outcome }) => match (id, outcome) {
            (Some(id), Ok(result)) => write_result(&mut line, id, result).unwrap(),
            (Some(id), Err(error)) => write_raw_error(&mut line, id, error).unwrap(),
            (None, Ok(_)) => panic!("a result needs an id"),
            (None, Err(error)) => {
                write_raw_error(&mut line, &0.into(), error).unwrap();
                let text = String::from_utf8(line).unwrap();
                line = text.replacen(r#""id":0,"#, "", 1).into_bytes();
            }
        },
    }
    // Raw JSON may hold what no value can, such as 1e999.
    let whole: &RawValue = serde_json::from_slice(&line).expect("what we wrote is JSON");
    assert!(!whole.get().contains(['\n', '\r']));
    line
}

/// A frame as values that can be compared, raw JSON without the line breaks between its tokens.
fn seen(
    frame: &Frame<'_>,
) -> (
    Option<RequestId>,
    Option<String>,
    Option<String>,
    &'static str,
) {
    let one_line = |text: &str| text.replace(['\n', '\r'], " ");
    let flat = |raw: &RawValue| one_line(raw.get());
    match frame {
        Frame::Request(request) => (
            Some(request.id.clone()),
            Some(request.method.to_string()),
            request.params.map(|params| one_line(params.get())),
            "request",
        ),
        Frame::Notification(notification) => (
            None,
            Some(notification.method.to_string()),
            notification.params.map(flat),
            "notification",
        ),
        Frame::Response(response) => match response.outcome {
            Ok(result) => (response.id.clone(), None, Some(flat(result)), "result"),
            Err(error) => (response.id.clone(), None, Some(flat(error)), "error"),
        },
    }
}
