//go:build js && wasm

package main

import (
	"bytes"
	"cmp"
	"context"

	"conclave/testbed/console"
	"conclave/testbed/console/journal"
	"conclave/testbed/console/recorded"
	"conclave/testbed/playground/glue"
)

func main() {
	if glue.Unpack() {
		return
	}
	r, err := journal.Open(bytes.NewReader(glue.Bytes("recording")))
	if err != nil {
		glue.Fail(err)
		return
	}
	ctx, p, moment := context.Background(), recorded.New(r), glue.Text("moment")
	err = p.Act(ctx, console.Request{Do: "seek", Value: cmp.Or(moment, "0")})
	if err == nil && moment == "" {
		err = p.Act(ctx, console.Request{Do: "play"})
	}
	if err != nil {
		glue.Fail(err)
		return
	}
	glue.Serve(ctx, p, nil, glue.Messages())
}
