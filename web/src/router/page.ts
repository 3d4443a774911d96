import type { Component } from 'vue'
import type { RouteComponent } from 'vue-router'
import type { Operation } from '@/api/types'

/** A page of the console. */
export interface PageDefinition {
  /** The name of the route. */
  name: string
  path: string
  component: () => Promise<RouteComponent | { default: RouteComponent }>
  /** The key of its title, which the navigation shows too. */
  title: string
  /** The operations without which the page makes no sense: it is not offered to users who may not call all of them. */
  operations: Operation[]
  /** Its place in the side navigation; left out for pages that are reached from others. */
  nav?: {
    section: 'watch' | 'messages' | 'delivery' | 'administration'
    order: number
    icon: Component
    /** What stands beside the title, as a number of new things. */
    badge?: Component
  }
}
