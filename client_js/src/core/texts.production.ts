/** No texts: messages of the production build are codes. client_js/README.md says what they mean. */

export const TEXTS: Readonly<Record<string, string>> = {};
