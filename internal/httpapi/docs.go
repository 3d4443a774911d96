package httpapi

import (
	"fmt"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"

	contract "lksms/api"
)

// mountDocs serves Swagger UI, from the binary, and the document in both forms (S0.16).
func mountDocs(mux *http.ServeMux) error {
	// Not the generated copy: there the operations carry the names of Go's methods.
	spec, err := openapi3.NewLoader().LoadFromData(contract.YAML)
	if err != nil {
		return fmt.Errorf("load contract: %w", err)
	}
	asJSON, err := spec.MarshalJSON()
	if err != nil {
		return fmt.Errorf("write contract as JSON: %w", err)
	}
	document := func(contentType string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(body) // a caller that has gone cannot be told
		}
	}
	ui := v5emb.NewHandlerWithConfig(swgui.Config{
		Title: "LKSMS", BasePath: "/docs/",
		SwaggerJSON: "/openapi.yaml", // keeps the order of operations and examples, which JSON loses
		SettingsUI: map[string]string{
			"persistAuthorization": "true", "displayRequestDuration": "true", "tryItOutEnabled": "true",
		},
	})
	mux.Handle("GET /openapi.json", document("application/json", asJSON))
	mux.Handle("GET /openapi.yaml", document("application/yaml", contract.YAML))
	mux.Handle("GET /docs/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		ui.ServeHTTP(w, r)
	}))
	mux.Handle("GET /docs", http.RedirectHandler("/docs/", http.StatusFound))
	mux.Handle("GET /{$}", http.RedirectHandler("/docs/", http.StatusFound))
	return nil
}
