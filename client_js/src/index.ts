/** The client without a platform: pass it a storage. Safe to import anywhere, a server included. */

export { Client } from "./client.js";
export type { Condition, Options, Status } from "./options.js";
export * from "./core/errors.js";
export { LEVELS, type PrivacyLevel } from "./core/ledger.js";
export { readMetrics } from "./core/reading.js";
export type { DeviceAccount, LineAccount } from "./account.js";
export { Encoder, newSecret, type Report } from "./encoder.js";
export { render } from "./inspection.js";
export type { Definition, LocalTime, Metric, Metrics, Places, Platform } from "./core/metrics.js";
export type { Delivery } from "./core/outbox.js";
export type { Randomness } from "./core/device.js";
export { MemoryStorage, TextStorage, type Storage } from "./ports/storage.js";
export type { Transport } from "./ports/transport.js";
