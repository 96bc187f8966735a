package glue

import "encoding/json"

// Message is what the page sends: a request, or the end of a stream.
type Message struct {
	ID    int          // of the request; its answers have the same
	Close bool         // the page does not want further events of the stream
	Path  string       // without a slash before it: v1/act
	Body  []byte       // JSON; nil: the request only asks
	Send  func(Answer) // sends an answer to the page
}

// Answer is what the page gets: the answer to a request or, with Event, one event of a
// stream.
type Answer struct {
	Status int    // as in HTTP
	Event  string // snapshot or change
	Body   []byte // JSON
}

// answer sends what was returned for a request.
func (m Message) answer(content any, err error) {
	a := Answer{Status: 200}
	if err != nil {
		a.Status, content = 400, map[string]any{"error": map[string]string{"message": err.Error()}}
	}
	body, err := json.Marshal(content)
	if err != nil { // what handlers return can be encoded
		panic(err)
	}
	a.Body = body
	m.Send(a)
}
