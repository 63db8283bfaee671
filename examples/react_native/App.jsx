import { useEffect, useState } from "react";
import { Alert, Button, Switch, Text, View } from "react-native";
import metrics from "./metrics.json";
import { answer, decide, openTelemetry } from "./telemetry";

export default function App() {
  const [client, setClient] = useState();
  const [agreed, setAgreed] = useState(false);
  const [account, setAccount] = useState("");
  const show = async (opened) => setAccount(JSON.stringify(await opened.inspect(), null, 2));
  const choose = async (opened, consent) => {
    setAgreed(consent);
    await decide(opened, consent);
    await show(opened);
  };
  useEffect(() => {
    openTelemetry(metrics).then(async (opened) => {
      setClient(opened);
      const said = await answer();
      setAgreed(said ?? false);
      await show(opened);
      if (said === undefined) {
        Alert.alert("Reports", "May this app send randomised reports of your start page?", [
          { text: "No", onPress: () => choose(opened, false) },
          { text: "Yes", onPress: () => choose(opened, true) },
        ]);
      }
    });
  }, []);
  const record = async () => {
    await client?.record("homepage", "https://example.org/");
    await show(client);
  };
  return (
    <View>
      <Button title="Use example.org" onPress={record} />
      <Switch value={agreed} onValueChange={(consent) => choose(client, consent)} />
      <Text>{account}</Text>
    </View>
  );
}
