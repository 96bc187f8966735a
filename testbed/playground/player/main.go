//go:build js && wasm

package main

import (
	"bytes"
	"context"

	"conclave/testbed/console/journal"
	"conclave/testbed/console/recorded"
	"conclave/testbed/playground/glue"
)

func main() {
	if glue.Unpack() {
		return
	}
	ctx := context.Background()
	var s *glue.Server
	s = glue.NewServer(map[string]glue.Handler{
		"POST v1/recording": func(_ context.Context, body []byte) (any, error) {
			r, err := journal.Open(bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			s.Show(ctx, recorded.New(r))
			return map[string]bool{"ok": true}, nil
		},
	})
	s.Serve(ctx, glue.Messages())
}
