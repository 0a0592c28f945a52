//! HTTP/2, written by hand.

use super::*;
use http_body_util::BodyExt;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

const DATA: u8 = 0;
const HEADER_BLOCK: u8 = 1;
const SETTINGS: u8 = 4;
const PING_FRAME: u8 = 6;

/// Opens HTTP/2 and asks for `/`. The header block is `:method: GET`, `:scheme: http`,
/// `:path: /` of the static table and `:authority: x`.
pub(super) async fn ask_by_http2(server: &RunningServer) -> TcpStream {
    let mut client = server.connect().await;
    let mut opening = PREFACE.to_vec();
    opening.extend(frame(SETTINGS, 0, 0, &[]));
    opening.extend(frame(HEADER_BLOCK, 5, 1, b"\x82\x86\x84\x41\x01x"));
    client.write_all(&opening).await.unwrap();
    client
}

pub(super) async fn read_frame(client: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    client.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    client.read_exact(&mut payload).await?;
    Ok((head[3], payload))
}

pub(super) async fn data_by_http2(client: &mut TcpStream) -> Vec<u8> {
    loop {
        let (kind, payload) = read_frame(client).await.unwrap();
        if kind == DATA && !payload.is_empty() {
            return payload;
        }
    }
}

#[tokio::test]
async fn http2_is_spoken_on_the_same_port() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut client = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut client).await, b"hello");
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn http2_states_its_limits() {
    let server = start(hello(), ServeOptions::default()).await;
    let mut client = ask_by_http2(&server).await;
    let (kind, settings) = read_frame(&mut client).await.unwrap();
    assert_eq!(kind, SETTINGS);
    let states = |name: u8, value: u32| {
        let value = value.to_be_bytes();
        settings
            .chunks(6)
            .any(|setting| setting[..2] == [0, name] && setting[2..] == value)
    };
    assert!(states(3, CONCURRENT), "{settings:?}");
    assert!(states(6, HEADERS), "{settings:?}");
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed() {
    let options = ServeOptions {
        idle_timeout: SHORT,
        ..short_header()
    };
    let server = start(hello(), options).await;
    let mut client = ask_by_http2(&server).await;
    assert_eq!(data_by_http2(&mut client).await, b"hello");
    while read_frame(&mut client).await.is_ok() {}
    server.stop().await;
}

/// Many windows are closed, and the connection is alive all the while.
#[tokio::test]
async fn a_response_of_which_the_client_takes_nothing_is_dropped() {
    const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];
    let (held, dropped) = oneshot::channel::<()>();
    let held = Arc::new(Mutex::new(Some(held)));
    let router = Router::new().route(
        "/",
        get(|| async move {
            let held = held.lock().unwrap().take();
            let answer = http_body_util::Full::new(Bytes::from(vec![0; 1024]));
            body::Body::new(answer.map_frame(move |frame| {
                let _ = &held;
                frame
            }))
        }),
    );
    let options = ServeOptions {
        idle_timeout: SHORT,
        ..ServeOptions::default()
    };
    let server = start(router, options).await;
    let mut client = server.connect().await;
    let mut opening = PREFACE.to_vec();
    opening.extend(frame(SETTINGS, 0, 0, NO_WINDOW));
    opening.extend(frame(HEADER_BLOCK, 5, 1, b"\x82\x86\x84\x41\x01x"));
    client.write_all(&opening).await.unwrap();
    let mut pings = tokio::time::interval(SHORT / 5);
    let alive = async {
        loop {
            pings.tick().await;
            let _ = client.write_all(&frame(PING_FRAME, 0, 0, &[0; 8])).await;
        }
    };
    tokio::select! {
        dropped = dropped => assert!(dropped.is_err(), "it is dropped, and not sent"),
        () = alive => {}
    }
    drop(client);
    server.stop().await;
}
