//! SCRAM against the example of RFC 7677, and both sides against each other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

fn exchange(verifier: Verifier, password: &str) -> Result<(), ScramError> {
    let mut server = ServerExchange::new(verifier, [7; NONCE_LEN]);
    let mut client = ClientExchange::new(password, [9; NONCE_LEN]);
    let server_first = server.client_first(&client.first())?;
    let client_final = client.server_first(&server_first)?;
    let server_final = server.client_final(&client_final)?;
    client.server_final(&server_final)
}

#[test]
fn the_example_of_rfc_7677_is_reproduced() {
    let mut client = ClientExchange::with_nonce("pencil", "user", "rOprNGfwEbeRWgbNEkqO");
    assert_eq!(client.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let server_first =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let client_final = client.server_first(server_first).unwrap();
    assert_eq!(
        std::str::from_utf8(&client_final).unwrap(),
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    client.server_final(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
}

#[test]
fn the_right_password_passes_and_a_wrong_one_does_not() {
    let verifier = Verifier::of_password("gehe\u{ad}im\u{2168}", [3; SALT_LEN]);
    assert_eq!(exchange(verifier.clone(), "geheimIX"), Ok(()), "SASLprep maps both to one password");
    assert_eq!(exchange(verifier, "geheim"), Err(ScramError::WrongPassword));
}

#[test]
fn an_unknown_user_fails_like_a_wrong_password() {
    let mock = Verifier::mock(&[5; 32], "nobody");
    assert_eq!(mock, Verifier::mock(&[5; 32], "nobody"));
    assert_ne!(mock, Verifier::mock(&[5; 32], "someone"));
    assert_eq!(exchange(mock, ""), Err(ScramError::WrongPassword));
}

#[test]
fn a_verifier_survives_its_text_form() {
    let verifier = Verifier::of_password("secret", [1; SALT_LEN]);
    let text = verifier.to_string();
    assert!(text.starts_with("SCRAM-SHA-256$4096:AQEBAQEBAQEBAQEBAQEBAQ==$"));
    assert!(text.parse::<Verifier>().unwrap() == verifier);
    assert!("SCRAM-SHA-256$0:AA==$AA==:AA==".parse::<Verifier>().is_err());
    assert!("md5abc".parse::<Verifier>().is_err());
    // A client that begins to enter is told the salt: none that was made for one is so long.
    let of_salt = |len: usize| {
        let salt = STANDARD.encode(vec![7; len]);
        text.replace("AQEBAQEBAQEBAQEBAQEBAQ==", &salt).parse::<Verifier>()
    };
    assert!(of_salt(256).is_ok());
    assert!(of_salt(257).is_err());
}

#[test]
fn messages_out_of_order_or_form_are_refused() {
    let verifier = Verifier::of_password("x", [0; SALT_LEN]);
    let mut server = ServerExchange::new(verifier, [7; NONCE_LEN]);
    assert!(server.client_final(b"c=biws,r=x,p=AA==").is_err());
    for message in [&b"p=tls-unique,,n=,r=a"[..], b"n,,n=,r=", b"n,a=x,n=,r=a", b"", b"n,,r=a", b"\xff"] {
        assert!(matches!(server.client_first(message), Err(ScramError::Malformed(_))));
    }
    server.client_first(b"n,,n=,r=abc").unwrap();
    assert!(server.client_final(b"c=biws,r=abc,p=AA==").is_err(), "a nonce without the server's part");
}
