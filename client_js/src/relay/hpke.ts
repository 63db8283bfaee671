/**
 * Hybrid public key encryption in base mode (RFC 9180): X25519, HKDF-SHA256, AES-128-GCM, by the
 * platform's WebCrypto. A context seals one message.
 */

import { bigEndian, concat, utf8 } from "../core/bytes.js";

/** What both sides derive for one message (RFC 9180, section 5.1). All of it is secret. */
export interface Context {
  readonly key: Uint8Array;
  readonly nonce: Uint8Array;
  readonly exporterSecret: Uint8Array;
}

export const PUBLIC_KEY_BYTES = 32;
export const [KEY_BYTES, NONCE_BYTES] = [16, 12];
export const SUITE = concat([bigEndian(0x0020, 2), bigEndian(0x0001, 2), bigEndian(0x0001, 2)]);
const HASH_BYTES = 32;
const VERSION = utf8("HPKE-v1");
const KEM = concat([utf8("KEM"), bigEndian(0x0020, 2)]);
const HPKE = concat([utf8("HPKE"), SUITE]);
const NONE = new Uint8Array(0);

const buffer = (bytes: Uint8Array): BufferSource => bytes as BufferSource;

/** HKDF-Extract (RFC 5869); WebCrypto takes no empty key, which zeros replace. */
export const extract = async (salt: Uint8Array, secret: Uint8Array): Promise<Uint8Array> => {
  const raw = salt.length ? salt : new Uint8Array(HASH_BYTES);
  const key = await crypto.subtle.importKey("raw", buffer(raw), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, buffer(secret)));
};

/** HKDF-Expand, up to 32 bytes. */
export const expand = async (prk: Uint8Array, info: Uint8Array, length: number): Promise<Uint8Array> =>
  (await extract(prk, concat([info, Uint8Array.of(1)]))).slice(0, length);

const labeledExtract = (suite: Uint8Array, salt: Uint8Array, label: string, secret: Uint8Array): Promise<Uint8Array> =>
  extract(salt, concat([VERSION, suite, utf8(label), secret]));

const labeledExpand = (suite: Uint8Array, prk: Uint8Array, label: string, info: Uint8Array, length: number): Promise<Uint8Array> =>
  expand(prk, concat([bigEndian(length, 2), VERSION, suite, utf8(label), info]), length);

const aead = (key: Uint8Array, use: "encrypt" | "decrypt"): Promise<CryptoKey> =>
  crypto.subtle.importKey("raw", buffer(key), "AES-GCM", false, [use]);

/** AES-128-GCM: the ciphertext with its tag. */
export const seal = async (key: Uint8Array, nonce: Uint8Array, plain: Uint8Array, associated: Uint8Array = NONE): Promise<Uint8Array> => {
  const algorithm = { name: "AES-GCM", iv: buffer(nonce), additionalData: buffer(associated) };
  return new Uint8Array(await crypto.subtle.encrypt(algorithm, await aead(key, "encrypt"), buffer(plain)));
};

/** The inverse. Rejects for what cannot be decrypted. */
export const open = async (key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv: buffer(nonce) }, await aead(key, "decrypt"), buffer(sealed)));

/** A secret that both sides derive (RFC 9180, section 5.3). */
export const exported = ({ exporterSecret }: Context, label: Uint8Array, length: number): Promise<Uint8Array> =>
  labeledExpand(HPKE, exporterSecret, "sec", label, length);

/** A key pair of X25519 for one message. */
export const newPair = async (): Promise<CryptoKeyPair> =>
  (await crypto.subtle.generateKey({ name: "X25519" }, true, ["deriveBits"])) as CryptoKeyPair;

/** The sender's public value, and the context for the holder of a public key. */
export const setUpSender = async (publicKey: Uint8Array, info: Uint8Array, pair: CryptoKeyPair): Promise<{ sent: Uint8Array; context: Context }> => {
  const sent = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const theirs = await crypto.subtle.importKey("raw", buffer(publicKey), { name: "X25519" }, false, []);
  const agreed = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: theirs }, pair.privateKey, 256));
  if (agreed.every((byte) => byte === 0)) throw new Error("no secret can be agreed with this public key");
  const prk = await labeledExtract(KEM, NONE, "eae_prk", agreed);
  const secret = await labeledExpand(KEM, prk, "shared_secret", concat([sent, publicKey]), HASH_BYTES);
  return { sent, context: await keySchedule(secret, info) };
};

const keySchedule = async (shared: Uint8Array, info: Uint8Array): Promise<Context> => {
  const noPsk = await labeledExtract(HPKE, NONE, "psk_id_hash", NONE);
  const context = concat([Uint8Array.of(0), noPsk, await labeledExtract(HPKE, NONE, "info_hash", info)]);
  const secret = await labeledExtract(HPKE, shared, "secret", NONE);
  const [key, nonce, exporterSecret] = await Promise.all(
    (["key", "base_nonce", "exp"] as const).map((label, i) => labeledExpand(HPKE, secret, label, context, [KEY_BYTES, NONCE_BYTES, HASH_BYTES][i]!)),
  );
  return { key: key!, nonce: nonce!, exporterSecret: exporterSecret! };
};
