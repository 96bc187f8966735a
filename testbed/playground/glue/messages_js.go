package glue

import "syscall/js"

// worker is what worker.js has for the program, and gets from it.
var worker = js.Global().Get("conclave")

// Text returns a text that worker.js has.
func Text(name string) string { return worker.Get(name).String() }

// Bytes returns a copy of a Uint8Array that worker.js has, or nil if it has none.
func Bytes(name string) []byte {
	v := worker.Get(name)
	if !v.Truthy() {
		return nil
	}
	b := make([]byte, v.Length())
	js.CopyBytesToGo(b, v)
	return b
}

// Fail has the page say why the program ends.
func Fail(err error) { worker.Set("failed", err.Error()) }

// Messages returns what the page sends to this worker. It is called once; worker.js has kept
// the messages that came before. The channel is never closed.
func Messages() <-chan Message {
	out := make(chan Message, 64) // so many may wait for Serve; then the page's event loop waits
	receive := js.FuncOf(func(_ js.Value, args []js.Value) any {
		out <- messageOf(args[0])
		return nil
	})
	worker.Set("receive", receive)
	worker.Call("begin")
	return out
}

func messageOf(v js.Value) Message {
	id := v.Get("id")
	m := Message{ID: id.Int(), Close: v.Get("close").Truthy(), Path: v.Get("path").String(), Send: func(a Answer) {
		out := map[string]any{"id": id, "body": string(a.Body)}
		if a.Event != "" {
			out["event"] = a.Event
		}
		js.Global().Call("postMessage", out)
	}}
	if body := v.Get("body"); body.Type() == js.TypeString {
		m.Body = []byte(body.String())
	}
	return m
}
