package glue_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
	"conclave/testbed/playground/glue"
)

// source shows titles until it is ended, and refuses to kill.
type source struct {
	titles chan string
	ended  *bool
}

func (s source) Run(ctx context.Context, hub *console.Hub) error {
	for {
		select {
		case title := <-s.titles:
			hub.Show(console.State{Title: title})
		case <-ctx.Done():
			*s.ended = true
			return nil
		}
	}
}

func (s source) Acts() console.Acts { return console.Holder }

func (s source) Explain(_ context.Context, r console.Request) (string, error) {
	return "would " + r.Do, nil
}

func (s source) Why(_ context.Context, r console.Request) ([]journal.Link, error) {
	return []journal.Link{{What: "because of " + r.Value}}, nil
}

func (s source) List(_ context.Context, r console.Request) (console.Listing, error) {
	return console.Listing{Next: r.Value}, nil
}

func (s source) Act(_ context.Context, r console.Request) error {
	if r.Do == "kill" {
		return errors.New("it is killed already")
	}
	return nil
}

func TestServe_AnswersAsTheConsoleDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended bool
		shown := source{make(chan string), &ended}
		messages, served := make(chan glue.Message), make(chan struct{})
		more := map[string]glue.Handler{"v1/pace": func(_ context.Context, body []byte) (any, error) { return string(body), nil }}
		go func() {
			defer close(served)
			glue.Serve(t.Context(), shown, more, messages)
		}()
		var titles []string
		show := func(title string) {
			shown.titles <- title
			synctest.Wait()
		}
		show("one")
		messages <- glue.Message{ID: 7, Path: "v1/stream", Send: func(a glue.Answer) {
			var s console.State
			require.NoError(t, json.Unmarshal(a.Body, &s))
			titles = append(titles, a.Event+" "+s.Title)
		}}
		synctest.Wait()
		show("two")
		messages <- glue.Message{ID: 7, Close: true}
		synctest.Wait()
		show("three")
		assert.Equal(t, []string{"snapshot one", "change two"}, titles, "a stream that was closed gets nothing")
		for _, c := range []struct {
			path, body, want string
		}{
			{"v1/rights", "", `{"act":true}`},
			{"v1/pace", "fast", `"fast"`},
			{"v1/explain", `{"do":"kill"}`, `{"says":"would kill"}`},
			{"v1/why", `{"do":"why","value":"7"}`, `{"links":[{"record":0,"asked":0,"at":0,"what":"because of 7"}]}`},
			{"v1/list", `{"do":"services","value":"web"}`, `{"rows":null,"next":"web"}`},
			{"v1/act", `{"do":"play"}`, `{"ok":true}`},
			{"v1/act", `{"do":"kill"}`, `{"error":{"message":"it is killed already"}}`},
			{"v1/act", `{"with":"kill"}`, `{"error":{"message":"decode the request: json: unknown field \"with\""}}`},
			{"v1/other", `{}`, `{"error":{"message":"v1/other: there is no such path"}}`},
		} {
			answers := make(chan glue.Answer, 1)
			messages <- glue.Message{ID: 100, Path: c.path, Body: []byte(c.body), Send: func(a glue.Answer) { answers <- a }}
			a := <-answers
			assert.Empty(t, a.Event)
			assert.JSONEq(t, c.want, string(a.Body))
		}
		assert.False(t, ended)
		close(messages)
		<-served
		assert.True(t, ended)
	})
}
