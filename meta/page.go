package meta

import (
	"net/http"

	"conclave/wire/serve"
)

// paged is an answer of which there is a next page, unless next is "".
type paged struct {
	body any
	next string // the key after which it begins
}

// cut answers with the page of a sorted list that the request asks for.
func cut[T any](r *http.Request, list []T, key func(T) string) (any, error) {
	page, err := serve.PageOf(r)
	if err != nil {
		return nil, err
	}
	rows, next := serve.Cut(list, page, key)
	return paged{rows, next}, nil
}
