// Package docs serves Swagger UI, and the contract as YAML and as JSON.
package docs

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"

	document "lksms/api"
)

// forgetCredentials removes credentials that earlier versions of the page stored in the browser, where anybody could read them.
const forgetCredentials = `<script>localStorage.removeItem("authorized")</script>`

// Mount serves Swagger UI, from the binary, and the document in both forms (S0.16). fail answers an error.
func Mount(mux *http.ServeMux, fail func(w http.ResponseWriter, r *http.Request, err error)) {
	ui := v5emb.NewHandlerWithConfig(swgui.Config{
		Title: "LKSMS", BasePath: "/docs/",
		SwaggerJSON: "/openapi.yaml", // keeps the order of operations and examples, which JSON loses
		SettingsUI:  map[string]string{"persistAuthorization": "false", "displayRequestDuration": "true", "tryItOutEnabled": "true"},
		AppendHead:  forgetCredentials,
	})
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		body, err := contractAsJSON()
		if err != nil {
			fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // on error the caller has gone
	})
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(document.YAML)
	})
	mux.HandleFunc("GET /docs/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		ui.ServeHTTP(w, r)
	})
	mux.Handle("GET /docs", http.RedirectHandler("/docs/", http.StatusFound))
}

// policy lets Swagger UI run its own scripts, one of them inline, and talk to this server only.
const policy = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// contractAsJSON writes the document as JSON, once. It does not use the generated copy, whose operations have the names of Go methods.
var contractAsJSON = sync.OnceValues(func() ([]byte, error) {
	spec, err := openapi3.NewLoader().LoadFromData(document.YAML)
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	body, err := spec.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write contract as JSON: %w", err)
	}
	return body, nil
})
