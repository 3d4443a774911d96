import { Connection, MapLocation } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'channels',
    path: 'channels',
    component: () => import('./ChannelsPage.vue'),
    title: 'channels.title',
    operations: ['listChannels'],
    nav: { section: 'delivery', order: 30, icon: Connection },
  },
  {
    name: 'countries',
    path: 'countries',
    component: () => import('./CountriesPage.vue'),
    title: 'countries.title',
    operations: ['listCountries'],
    nav: { section: 'delivery', order: 40, icon: MapLocation },
  },
]
