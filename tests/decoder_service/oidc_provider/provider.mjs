// A provider of OpenID Connect for tests: people sign in by their name, with any password.
// usage: node provider.mjs SETTINGS (JSON: port, client, people by subject with their claims)
import { Provider } from "oidc-provider";

const { port, client, people } = JSON.parse(process.argv[2]);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [client],
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
  conformIdTokenClaims: client.claims_of_userinfo === true,
  features: { devInteractions: { enabled: true } },
  findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ ...people[sub], sub }) }),
  extraClientMetadata: { properties: ["claims_of_userinfo"] },
});
provider.listen(port, "127.0.0.1", () => console.log("ready"));
