package client

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whoever reads the id of a client must not be able to compute those of its
// registrations.
func TestConfig_IDsAreDrawnFromChaCha8(t *testing.T) {
	source := reflect.ValueOf(Config{}.withDefaults().Rand).Elem().FieldByName("src").Elem().Type()
	assert.Equal(t, reflect.TypeFor[*rand.ChaCha8](), source)
}
