{#- A lane's vector `s` of n values of T, and vectors that lanes share. Macros only.

    Constants: vec (values in a T), n, bcast: lanes (8 or 4) that load a shared vector together and
    hand it round with subgroupBroadcast, or 0: each lane loads all by itself, in loops. With bcast
    everything is unrolled, since adapters that compute on the host's cores are slow at arrays with
    changing indices; then `part` (the lane's number among those that load together) must be
    defined, n be a multiple of bcast, and all lanes of a subgroup want the same vectors. -#}
{$ macro dot_of(a, b) $}{$ if vec == 4 $}dot({{ a }}, {{ b }}){$ else $}{{ a }} * {{ b }}{$ endif $}{$ endmacro $}

{#- element i of a lane's vector -#}
{$ macro at(name, i) $}{{ name }}{$ if bcast $}{{ i }}{$ else $}[{{ i }}]{$ endif $}{$ endmacro $}
{$ macro declare(name) $}
$$ if bcast
$$ for i in range(n)
    var {{ name }}{{ i }}: T;
$$ endfor
$$ else
    var {{ name }}: array<T, {{ n }}>;
$$ endif
{$ endmacro $}

{#- for i in 0 .. n: the body gets i -#}
{$ macro loop_over() $}
$$ if bcast
$$ for i in range(n)
    {
        {{ caller(i) }}
    }
$$ endfor
$$ else
    for (var i = 0u; i < {{ n }}u; i++) {
        {{ caller("i") }}
    }
$$ endif
{$ endmacro $}

{#- the same; the body sees value i of each shared vector as <name>_i. `vectors` are (name, array
    variable) pairs; the WGSL variable <name> holds where the vector begins. -#}
{$ macro each(vectors) $}
$$ if bcast
$$ for c in range(0, n, bcast)
    {
$$ for name, buffer in vectors
        let {{ name }}_c = {{ buffer }}[{{ name }} + {{ c }}u + part];
$$ endfor
$$ for l in range(bcast)
        {
$$ for name, buffer in vectors
            let {{ name }}_i = subgroupBroadcast({{ name }}_c, {{ l }}u);
$$ endfor
            {{ caller(c + l) }}
        }
$$ endfor
    }
$$ endfor
$$ else
    for (var i = 0u; i < {{ n }}u; i++) {
$$ for name, buffer in vectors
        let {{ name }}_i = {{ buffer }}[{{ name }} + i];
$$ endfor
        {{ caller("i") }}
    }
$$ endif
{$ endmacro $}
