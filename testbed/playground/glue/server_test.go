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

// source shows its title until it is ended, and refuses to kill.
type source struct {
	title string
	acts  console.Acts
	ended *bool
}

func (s source) Run(ctx context.Context, hub *console.Hub) error {
	hub.Show(console.State{Title: s.title})
	<-ctx.Done()
	*s.ended = true
	return nil
}

func (s source) Acts() console.Acts { return s.acts }

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

func TestServer_AnswersAsTheConsoleDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one, two bool
		server := glue.NewServer(map[string]glue.Handler{
			"POST v1/recording": func(_ context.Context, body []byte) (any, error) { return string(body), nil },
		})
		messages := make(chan glue.Message)
		served := make(chan struct{})
		go func() { defer close(served); server.Serve(t.Context(), messages) }()
		ask := func(method, path, body string) (int, string) {
			answers := make(chan glue.Answer, 1)
			messages <- glue.Message{ID: 100, Method: method, Path: path, Body: []byte(body), Send: func(a glue.Answer) { answers <- a }}
			a := <-answers
			assert.Empty(t, a.Event)
			return a.Status, string(a.Body)
		}
		for _, c := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"GET", "v1/rights", "", 200, `{"act":false}`},
			{"POST", "v1/act", `{"do":"play"}`, 400, `{"error":{"message":"nothing is shown yet"}}`},
			{"POST", "v1/recording", "bytes", 200, `"bytes"`},
		} {
			status, body := ask(c.method, c.path, c.body)
			assert.Equal(t, c.status, status)
			assert.JSONEq(t, c.want, body)
		}

		server.Show(t.Context(), source{"one", console.Holder, &one})
		synctest.Wait()
		var titles []string
		messages <- glue.Message{ID: 7, Method: "GET", Path: "v1/stream", Send: func(a glue.Answer) {
			var s console.State
			require.NoError(t, json.Unmarshal(a.Body, &s))
			titles = append(titles, a.Event+" "+s.Title)
		}}
		synctest.Wait()
		server.Show(t.Context(), source{"two", console.Holder, &two})
		synctest.Wait()
		assert.Equal(t, []string{"snapshot one", "change two"}, titles)
		assert.True(t, one, "the source before has ended")
		for _, c := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"GET", "v1/rights", "", 200, `{"act":true}`},
			{"POST", "v1/explain", `{"do":"kill"}`, 200, `{"says":"would kill"}`},
			{"POST", "v1/why", `{"do":"why","value":"7"}`, 200, `{"links":[{"record":0,"asked":0,"at":0,"what":"because of 7"}]}`},
			{"POST", "v1/list", `{"do":"services","value":"web"}`, 200, `{"rows":null,"next":"web"}`},
			{"POST", "v1/act", `{"do":"play"}`, 200, `{"ok":true}`},
			{"POST", "v1/act", `{"do":"kill"}`, 400, `{"error":{"message":"it is killed already"}}`},
			{"POST", "v1/act", `{"with":"kill"}`, 400, `{"error":{"message":"decode the request: json: unknown field \"with\""}}`},
			{"POST", "v1/other", `{}`, 400, `{"error":{"message":"POST v1/other: there is no such path"}}`},
		} {
			status, body := ask(c.method, c.path, c.body)
			assert.Equal(t, c.status, status)
			assert.JSONEq(t, c.want, body)
		}

		messages <- glue.Message{ID: 7, Close: true}
		synctest.Wait()
		server.Show(t.Context(), source{"three", console.Holder, new(bool)})
		synctest.Wait()
		assert.Len(t, titles, 2, "a stream that was closed gets nothing")
		assert.True(t, two)
		close(messages)
		<-served
	})
}
