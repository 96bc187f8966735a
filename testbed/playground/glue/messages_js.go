package glue

import "syscall/js"

// messagesWaiting is how many messages may wait for Serve; the page's event loop waits for
// room after that.
const messagesWaiting = 64

// Messages returns what the page sends to this worker. It is called once; worker.js has kept
// the messages that came before. The channel is never closed.
func Messages() <-chan Message {
	out := make(chan Message, messagesWaiting)
	worker := js.Global().Get("conclave")
	receive := js.FuncOf(func(_ js.Value, args []js.Value) any {
		out <- messageOf(args[0])
		return nil
	})
	worker.Set("receive", receive)
	worker.Call("begin")
	return out
}

// messageOf reads a message: its body is text, bytes, or none.
func messageOf(v js.Value) Message {
	id := v.Get("id")
	m := Message{ID: id.Int(), Close: v.Get("close").Truthy(), Send: func(a Answer) {
		out := map[string]any{"id": id, "status": a.Status, "body": string(a.Body)}
		if a.Event != "" {
			out["event"] = a.Event
		}
		js.Global().Call("postMessage", out)
	}}
	if m.Close {
		return m
	}
	m.Method, m.Path = v.Get("method").String(), v.Get("path").String()
	switch body := v.Get("body"); body.Type() {
	case js.TypeString:
		m.Body = []byte(body.String())
	case js.TypeObject:
		m.Body = bytesOf(js.Global().Get("Uint8Array").New(body))
	}
	return m
}

// bytesOf copies a Uint8Array.
func bytesOf(v js.Value) []byte {
	b := make([]byte, v.Length())
	js.CopyBytesToGo(b, v)
	return b
}
